"""Errors of Python functions with the names that the user of a command wrote."""

import re
from collections.abc import Mapping

_VALUE = r"(?P<value>'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|[^\s,;]*[^\s,;.:])"


def name_options(message: str, names: Mapping[str, str]) -> str:
    """Replaces the names of Python arguments in an error by those of the command line.

    Args:
        message: String, an error such as `"Export it with precision='float32'."`.
        names: Dict from the names of arguments to those of options, such as
            `{"precision": "--precision"}`, or of positional arguments, such as `{"path": "OUT"}`.

    Returns:
        String such as `"Export it with --precision float32."`.
    """
    for name, option in names.items():

        def replace(match, option=option):
            value = match["value"]
            if not option.startswith("--"):
                return f"{option}={value}"
            if value == "None":
                return f"no {option}"
            quotes = "'\""
            return f"{option} {value.strip(quotes)}"

        message = re.sub(rf"(?<![\w-]){name}={_VALUE}", replace, message)
        message = re.sub(rf"\bExpected {name}\b(?! of)", f"Expected {option}", message)
        if "_" in name:
            message = re.sub(rf"(?<![\w-]){name}\b(?!=)", option, message)
    return message
