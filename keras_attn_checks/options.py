"""Options: arguments that a dataclass declares once, as fields.

The check, the docstring entry, the parameter of the signature and the value in the configuration of
an option are made from its field. A `TypedDict` beside the dataclass repeats the names and types,
because type checkers accept only a `TypedDict` as the type of keyword arguments.
"""

import dataclasses
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, get_args

from keras_attn_checks.number_types import is_finite, is_integer, is_number

Function = TypeVar("Function", bound=Callable[..., Any])


class LayerArguments(TypedDict, total=False):
    """Keyword arguments of `keras.layers.Layer`, which all layers accept."""

    activity_regularizer: Any
    autocast: bool
    dtype: Any
    input_shape: tuple[int | None, ...]
    name: str | None
    trainable: bool


@dataclasses.dataclass(frozen=True)
class Kind:
    """The values that an option accepts.

    Args:
        title: String that begins the docstring entry of an option, such as `"Positive int"`.
        expected: String for errors, such as `"a positive integer"`.
        convert: Function that returns an accepted value as a Python object, and raises an
            `OverflowError`, `TypeError` or `ValueError` for any other value.
    """

    title: str
    expected: str
    convert: Callable[[Any], Any]

    def check(self, name: str, value: object, advice: str = "") -> Any:
        """Returns a value as a Python object.

        Args:
            name: String, name of the argument.
            value: Value of the argument.
            advice: String, end of the error message. Defaults to `""`.

        Raises:
            ValueError: If the value is not accepted.
        """
        try:
            return self.convert(value)
        except (OverflowError, TypeError, ValueError):
            message = f"Expected {name} to be {self.expected}. Received: {name}={value!r}. {advice}"
            raise ValueError(message.strip()) from None


def _kind(title, expected, condition, convert):
    def converted(value):
        if not condition(value):
            raise ValueError(value)
        return convert(value)

    return Kind(title, expected, converted)


def _id_list(values):
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(values)
    return [ID.convert(value) for value in values]


def integers(least: int, most: int) -> Kind:
    """Returns the kind of integers in [least, most]."""
    return _kind(
        f"Int in [{least}, {most}]",
        f"an integer in [{least}, {most}]",
        lambda value: is_integer(value) and least <= value <= most,
        int,
    )


def numbers(title: str, expected: str, condition: Callable[[float], bool]) -> Kind:
    """Returns the kind of numbers that fulfill a condition."""
    return _kind(title, expected, lambda value: is_number(value) and condition(value), float)


def choice(literal: Any) -> Kind:
    """Returns the kind of the strings of a `Literal`."""
    values = get_args(literal)
    quoted = [f'`"{value}"`' for value in values]
    return _kind(
        f"String, {', '.join(quoted[:-1])} or {quoted[-1]}",
        f"one of {values}",
        lambda value: value in list(values),
        str,
    )


def optional(kind: Kind) -> Kind:
    """Returns a kind that also accepts `None`."""
    return Kind(
        kind.title,
        f"{kind.expected} or None",
        lambda value: None if value is None else kind.convert(value),
    )


BOOL = _kind("Bool", "True or False", lambda value: value in (True, False), bool)
INTEGER = _kind("Int", "an integer", is_integer, int)
NONNEGATIVE_INTEGER = _kind(
    "Int >= 0", "an integer of at least 0", lambda value: is_integer(value) and value >= 0, int
)
ID = NONNEGATIVE_INTEGER
ID_LIST = Kind("List of ids", "a list of ids, integers of at least 0", _id_list)
POSITIVE_INTEGER = _kind(
    "Positive int", "a positive integer", lambda value: is_integer(value) and value > 0, int
)
LENGTH = _kind(  # whole floats, such as 1.5 * 20, are accepted
    "Int >= 0",
    "an integer in [0, 2**31)",
    lambda value: is_finite(value) and value % 1 == 0 and 0 <= value < 2**31,
    int,
)
FINITE = _kind("Float", "a finite number", is_finite, float)
POSITIVE_NUMBER = _kind(
    "Positive float", "a positive finite number", lambda v: is_finite(v) and v > 0, float
)
NONNEGATIVE_NUMBER = _kind(
    "Float >= 0", "a finite number of at least 0", lambda v: is_finite(v) and v >= 0, float
)


def option(
    default: Any,
    kind: Kind,
    text: str,
    *,
    default_text: str = "",
    advice: str = "",
    argument_type: Any = None,
    input_dtype: Literal["int32", "float32"] | None = None,
) -> Any:
    """Returns the dataclass field of an option.

    Args:
        default: Default value.
        kind: `Kind` of the accepted values.
        text: String, the docstring entry after the title of `kind`. Text that begins in lower case
            continues the sentence.
        default_text: String, meaning of the default, for the docstring. Defaults to `""`.
        advice: String, end of the error message for a wrong value. Defaults to `""`.
        argument_type: Type of the argument, if it differs from the type of the attribute. Defaults
            to `None`: the type of the field.
        input_dtype: String, dtype of the scalar input for this option in exported files. Defaults
            to `None`: not an input.
    """
    metadata = {
        "kind": kind,
        "text": text,
        "default_text": default_text,
        "advice": advice,
        "argument_type": argument_type,
        "input_dtype": input_dtype,
    }
    return dataclasses.field(default=default, metadata=metadata)


def option_fields(options: type) -> list[dataclasses.Field[Any]]:
    """Returns the fields of a dataclass of options, those of its base classes last."""

    def num_classes(field):
        fields = [getattr(each, "__dataclass_fields__", {}) for each in options.__mro__]
        return sum(field.name in names for names in fields)

    return sorted(dataclasses.fields(options), key=num_classes)


def option_names(options: type) -> list[str]:
    """Returns the names of all options of a dataclass, those of its base classes first."""
    return [each.name for each in dataclasses.fields(options)]


def argument_type(field: dataclasses.Field[Any]) -> Any:
    """Returns the type of the argument for an option."""
    return field.metadata["argument_type"] or field.type


def checked_options(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the checked values of all options, with defaults for the missing values.

    Args:
        options: Dataclass of the options.
        values: Dict of arguments. Other arguments than options are ignored.

    Raises:
        ValueError: If a value is not accepted.
    """
    return {
        each.name: each.metadata["kind"].check(
            each.name, values.get(each.name, each.default), each.metadata["advice"]
        )
        for each in dataclasses.fields(options)
    }


def describe_options(fields: Iterable[dataclasses.Field[Any]]) -> str:
    """Returns the entries of options for the section `Args` of a docstring."""
    return "\n".join(
        textwrap.fill(
            f"{each.name}: {_description(each)}",
            width=92,  # a docstring of a class is indented, and so is the section
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for each in fields
    )


def _description(field):
    metadata, default = field.metadata, field.default
    text, meaning = metadata["text"], metadata["default_text"]
    separator = ", " if text[0].islower() else ". "
    default = json.dumps(default) if isinstance(default, str) else repr(default)
    meaning = f": {meaning}" if meaning else ""
    return f"{metadata['kind'].title}{separator}{text} Defaults to `{default}`{meaning}."


def list_options(options: type) -> Callable[[Function], Function]:
    """Decorates a constructor with `**options`, so that its signature lists each option.

    Args:
        options: Dataclass of the options.
    """

    def decorator(function: Function) -> Function:
        signature = inspect.signature(function)
        kinds = inspect.Parameter
        own = [each for each in signature.parameters.values() if each.kind is not kinds.VAR_KEYWORD]
        listed = [
            kinds(
                each.name, kinds.KEYWORD_ONLY, default=each.default, annotation=argument_type(each)
            )
            for each in option_fields(options)
        ]
        rest = kinds("kwargs", kinds.VAR_KEYWORD, annotation=Any)
        untyped: Any = function
        untyped.__signature__ = signature.replace(parameters=[*own, *listed, rest])
        return function

    return decorator
