"""Texts of errors with the names that the user of a command wrote."""

from collections.abc import Mapping
from os import PathLike

from keras_attn_checks.message import NO_VALUE, Argument, Message


def error_text(
    error: Exception, options: Mapping[str, str], paths: Mapping[str, PathLike[str] | None]
) -> str:
    """Returns the text of an error in one line, with options in place of Python arguments.

    Args:
        error: Exception. Only a `Message` contains arguments.
        options: Dict from the names of arguments to the names of options, such as
            `{"precision": "--precision"}`.
        paths: Dict from the names of options and positional arguments, such as `"OUT"`, to the
            paths that the user wrote. The errors of most functions call a path `path`.
    """

    def write(argument: Argument) -> str:
        for name, path in paths.items():
            if path is not None and argument.value == str(path):
                return f"{name} {path}" if name.startswith("--") else f"{name}={str(path)!r}"
        option = options.get(argument.name)
        if option is None:
            return str(argument)
        if argument.value is NO_VALUE:
            return option
        return f"no {option}" if argument.value is None else f"{option} {argument.value}"

    message = error.args[0] if len(error.args) == 1 else None
    text = message.write(write) if isinstance(message, Message) else str(error)
    return " ".join(text.split())  # errors of C++ code can have several lines
