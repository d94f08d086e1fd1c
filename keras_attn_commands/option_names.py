"""Translates the names of Python arguments in errors to options of the command line."""

import re
from collections.abc import Mapping
from os import PathLike

_VALUE = r"(?P<value>'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|[^\s,;]*[^\s,;.:])"


def name_options(
    message: str, options: Mapping[str, str], paths: Mapping[str, PathLike[str] | None]
) -> str:
    """Replaces the names of Python arguments in an error by options of the command line.

    Args:
        message: String, an error such as `"Export it with precision='float32'."`.
        options: Dict from the names of arguments to the names of options, such as
            `{"precision": "--precision"}`.
        paths: Dict from the names of options and positional arguments, such as `"OUT"`, to the
            paths that the user wrote. The errors of most functions call a path `path` or `folder`.

    Returns:
        String such as `"Export it with --precision float32."`.
    """
    for option, path in paths.items():
        if path is not None:
            value = f"{str(path)!r}"
            received = f"{option} {path}" if option.startswith("--") else f"{option}={value}"
            for name in ("path", "folder"):
                message = message.replace(f"{name}={value}", received)
    for name, option in options.items():

        def replace(match, option=option):
            value = match["value"].strip("'\"")
            return f"no {option}" if value == "None" else f"{option} {value}"

        message = re.sub(rf"(?<![\w/-]){name}={_VALUE}", replace, message)
        message = re.sub(rf"\bExpected {name}\b(?! of)", f"Expected {option}", message)
        if "_" in name:
            message = re.sub(rf"(?<![\w/-]){name}\b(?!=)", option, message)
    return message
