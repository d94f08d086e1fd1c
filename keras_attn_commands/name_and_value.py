import argparse
import ast
import contextlib
import json
from typing import Any


def name_and_value(text: str) -> tuple[str, Any]:
    """Parses NAME=VALUE. The value is JSON, a Python literal, or otherwise a string."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, received {text!r}")
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return name, read(value)
    return name, value
