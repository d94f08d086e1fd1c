"""Arguments of a command line, made from the fields of a dataclass of options."""

import argparse
import dataclasses
from typing import Any

from keras_attn_checks.options import flag_name


def add_option(parser: argparse._ActionsContainer, field: dataclasses.Field[Any]) -> None:
    """Adds an option to a parser or a group. The result has no attribute for an absent option."""
    form, name = field.metadata["flag"], flag_name(field)
    text = form.help.replace("%(default)s", str(field.default))
    common = {"dest": field.name, "default": argparse.SUPPRESS, "help": text}
    if field.type in (bool, bool | None) and field.default is None:
        parser.add_argument(name, action=argparse.BooleanOptionalAction, **common)
    elif field.type is bool:
        parser.add_argument(name, action="store_true", **common)
    elif choices := field.metadata["kind"].choices:
        parser.add_argument(name, choices=choices, **common)
    else:
        parser.add_argument(name, metavar=form.metavar, type=form.parse, **common)
