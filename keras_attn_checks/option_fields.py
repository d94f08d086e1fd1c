"""Fields of dataclasses whose fields are options of functions and of commands.

The metadata of a field are the documentation of the option, the values that it can have and its
form on the command line. Signatures, docstrings and parsers are made from them.
"""

import dataclasses
import inspect
import json
import math
import numbers
import textwrap
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from keras_attn_checks.message import Argument, Message


@dataclasses.dataclass(frozen=True)
class Flag:
    """Form of an option on the command line.

    Args:
        help: String, text of `--help`.
        name: String, such as `"--sample"`. Defaults to the name of the field.
        metavar: String, name of the value in `--help`. Not for a bool or a choice. Defaults to
            `None`.
        parse: Function that converts the text of the value. Defaults to `str`.
        advice: String, what to do for a format without the option. Defaults to `""`.
    """

    help: str
    name: str | None = None
    metavar: str | None = None
    parse: Callable[[str], object] = str
    advice: str = ""


@dataclasses.dataclass(frozen=True)
class Range:
    """Values that an option can have.

    Args:
        text: String, such as `"a positive int"`.
        contains: Function that returns whether a value is in the range.
        advice: String, what to do with another value. Defaults to `""`.
    """

    text: str
    contains: Callable[[object], bool]
    advice: str = ""


def option(default: Any, text: str, flag: Flag | None = None, valid: Range | None = None) -> Any:
    """Returns the field of an option. `text` documents it, without its default."""
    metadata = {"text": text, "flag": flag, "range": valid}
    return dataclasses.field(default=default, metadata=metadata)


def is_positive_int(value: object) -> bool:
    """Returns whether a value is an int in [1, 2**31)."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def is_positive(value: Any) -> bool:
    """Returns whether a value is a positive finite number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


POSITIVE_INT = Range("a positive int", is_positive_int)
POSITIVE_NUMBER = Range("a positive number", is_positive)


def option_names(options: type) -> list[str]:
    """Returns the names of the options of a dataclass, those of its base classes last."""
    return list(
        dict.fromkeys(name for each in options.__mro__ for name in inspect.get_annotations(each))
    )


def option_fields(options: type) -> list[dataclasses.Field[Any]]:
    """Returns the fields of the options of a class in the order of `option_names`."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    return [fields[name] for name in option_names(options)]


def choices_of(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Returns the values of an option that is a choice; otherwise an empty tuple."""
    return get_args(field.type) if get_origin(field.type) is Literal else ()


def check_option(field: dataclasses.Field[Any], value: object) -> None:
    """Raises a `ValueError` if a value is neither the default of an option nor in its range."""
    choices = choices_of(field)
    valid: Range | None = field.metadata["range"]
    if choices:
        valid = Range(f"one of {list(choices)}", lambda value: value in choices)
    if valid is None or value is field.default or valid.contains(value):
        return
    name, received = Argument(field.name), Argument(field.name, value)
    end = f". {valid.advice}".rstrip()
    raise ValueError(Message("Expected ", name, f" to be {valid.text}. Received: ", received, end))


def flag_name(field: dataclasses.Field[Any]) -> str:
    """Returns the name of an option on the command line, such as `"--batch-size"`."""
    return field.metadata["flag"].name or f"--{field.name.replace('_', '-')}"


def describe_option(field: dataclasses.Field[Any]) -> str:
    """Returns the entry of an option for the section `Args` of a docstring, without indentation."""
    text = f"{field.name}: {field.metadata['text']}"
    if field.default is not dataclasses.MISSING:
        default = field.default
        default = json.dumps(default) if isinstance(default, str) else repr(default)
        text += f" Defaults to `{default}`."
    return textwrap.fill(
        text, 92, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
