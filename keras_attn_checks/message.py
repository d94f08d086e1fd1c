"""Texts of errors that name arguments as the caller wrote them."""

from collections.abc import Callable
from typing import Self

NO_VALUE = ...


class Argument:
    """An argument in a `Message`: `name`, or `name=value` if it has a value.

    Args:
        name: String, name of the argument in Python.
        value: Value that the caller passed. Defaults to none.
    """

    def __init__(self, name: str, value: object = NO_VALUE) -> None:
        self.name = name
        self.value = value

    def __str__(self) -> str:
        return self.name if self.value is NO_VALUE else f"{self.name}={self.value!r}"


class Message(str):
    """Text of an error, made of texts and arguments.

    As a string, it has the arguments in Python's form. A command writes them as its options, see
    `write`.

    Args:
        parts: Strings and `Argument`s.

    Example:

    >>> message = Message("Export the model with ", Argument("precision", "float32"), ".")
    >>> str(message)
    "Export the model with precision='float32'."
    >>> message.write(lambda argument: f"--{argument.name} {argument.value}")
    'Export the model with --precision float32.'
    """

    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Self:
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = parts
        return message

    def write(self, write_argument: Callable[[Argument], str]) -> str:
        """Returns the text, with each argument as a function writes it."""
        return "".join(
            write_argument(part) if isinstance(part, Argument) else part for part in self.parts
        )
