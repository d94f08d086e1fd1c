"""Options: arguments that a dataclass declares once, as fields.

The check, the docstring entry, the parameter of the signature, the value in the configuration and
the form on the command line of an option are made from its field. A `TypedDict` repeats the names
and types, because type checkers accept only a `TypedDict` as the type of keyword arguments.
"""

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

from keras_attn_checks.message import Argument, Message
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
        choices: Tuple of strings, all accepted values if they are a choice. Defaults to `()`.
    """

    title: str
    expected: str
    convert: Callable[[Any], Any]
    choices: tuple[str, ...] = ()

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
            named, received = Argument(name), Argument(name, value)
            parts = ("Expected ", named, f" to be {self.expected}. Received: ", received)
            raise ValueError(Message(*parts, f". {advice}".rstrip())) from None


@dataclasses.dataclass(frozen=True)
class Flag:
    """Form of an option on the command line.

    Args:
        help: String, text of `--help`.
        name: String, such as `"--verify"`. Defaults to the name of the field.
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


def _kind(title, expected, condition, convert, choices=()):
    def converted(value):
        if not condition(value):
            raise ValueError(value)
        return convert(value)

    return Kind(title, expected, converted, choices)


def _list_of(convert, values):
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(values)
    return [convert(value) for value in values]


def _id_list(values):
    return _list_of(ID.convert, values)


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


def id_sequences(least: int) -> Kind:
    """Returns the kind for lists with lists that have at least `least` ids, 1 or 2."""

    def converted(values):
        sequences = _list_of(_id_list, values)
        if any(len(sequence) < least for sequence in sequences):
            raise ValueError(values)
        return sequences

    number = {1: "one id", 2: "two ids"}[least]
    expected = f"a list of lists with at least {number}, integers of at least 0"
    return Kind("List of lists of ids", expected, converted)


def choice(literal: Any) -> Kind:
    """Returns the kind of the strings of a `Literal`."""
    values = get_args(literal)
    quoted = [f'`"{value}"`' for value in values]
    return _kind(
        f"String, {', '.join(quoted[:-1])} or {quoted[-1]}",
        f"one of {list(values)}",
        lambda value: value in list(values),
        str,
        values,
    )


def optional(kind: Kind) -> Kind:
    """Returns a kind that also accepts `None`."""
    return Kind(
        kind.title,
        f"{kind.expected} or None",
        lambda value: None if value is None else kind.convert(value),
    )


def unchecked(title: str) -> Kind:
    """Returns the kind of values that the function itself checks."""
    return Kind(title, title, lambda value: value)


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
SIZE = _kind(
    "Positive int",
    "an integer in [1, 2**31)",
    lambda value: is_integer(value) and 1 <= value < 2**31,
    int,
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
    flag: Flag | None = None,
    *,
    default_text: str = "",
    advice: str = "",
    argument_type: Any = None,
    input_dtype: Literal["int32", "float32"] | None = None,
    is_usual_input: bool = False,
) -> Any:
    """Returns the dataclass field of an option.

    Args:
        default: Default value. `dataclasses.MISSING` for a required option.
        kind: `Kind` of the accepted values.
        text: String, the docstring entry after the title of `kind`. Text that begins in lower case
            continues the sentence.
        flag: `Flag`, form on the command line. Defaults to `None`: not an option of a command.
        default_text: String, meaning of the default, for the docstring. Defaults to `""`.
        advice: String, end of the error message for a wrong value. Defaults to `""`.
        argument_type: Type of the argument, if it differs from the type of the attribute. Defaults
            to `None`: the type of the field.
        input_dtype: String, dtype of the scalar input for this option in exported files. Defaults
            to `None`: not an input.
        is_usual_input: Bool, whether exported files have this input unless the caller of the export
            selects the inputs. Defaults to `False`.
    """
    metadata = {
        "kind": kind,
        "text": text,
        "flag": flag,
        "default_text": default_text,
        "advice": advice,
        "argument_type": argument_type,
        "input_dtype": input_dtype,
        "is_usual_input": is_usual_input,
    }
    return dataclasses.field(default=default, metadata=metadata)


def option_fields(options: type) -> list[dataclasses.Field[Any]]:
    """Returns the fields of a dataclass of options, those of its base classes last."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    names = dict.fromkeys(name for cls in options.__mro__ for name in inspect.get_annotations(cls))
    return [fields[name] for name in names]


def option_names(options: type) -> list[str]:
    """Returns the names of the options of a dataclass in the order of `option_fields`."""
    return [field.name for field in option_fields(options)]


def flag_name(field: dataclasses.Field[Any]) -> str:
    """Returns the name of an option on the command line, such as `"--batch-size"`."""
    return field.metadata["flag"].name or f"--{field.name.replace('_', '-')}"


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
    text = f"{metadata['kind'].title}{', ' if text[0].islower() else '. '}{text}"
    if default is dataclasses.MISSING:
        return text
    default = json.dumps(default) if isinstance(default, str) else repr(default)
    return f"{text} Defaults to `{default}`{f': {meaning}' if meaning else ''}."


def fill_options(docstring: str, fields: Iterable[dataclasses.Field[Any]]) -> str:
    """Replaces the line `{{options}}` of a docstring by the entries of options."""

    def entries(match: re.Match[str]) -> str:
        return textwrap.indent(describe_options(fields), match[1])

    return re.sub(r"^( +)\{\{options\}\}$", entries, docstring, flags=re.MULTILINE)


def list_options(options: type) -> Callable[[Function], Function]:
    """Decorates a function, so that its docstring and its signature list each option.

    The entries replace the line `{{options}}` of the docstring. In the signature, the options
    replace `**options`. Their types are those of `**options: Unpack[...]`, otherwise those of the
    fields. `**kwargs` follows them if the function accepts other keyword arguments.

    Args:
        options: Dataclass of the options.
    """
    fields = option_fields(options)

    def decorator(function: Function) -> Function:
        untyped: Any = function
        untyped.__doc__ = function.__doc__ and fill_options(function.__doc__, fields)
        signature, kinds = inspect.signature(function), inspect.Parameter
        *own, last = signature.parameters.values()
        if last.kind is kinds.VAR_KEYWORD:
            types = get_type_hints(*get_args(last.annotation)) if get_args(last.annotation) else {}
            listed = [
                kinds(
                    each.name,
                    kinds.KEYWORD_ONLY,
                    default=each.default,
                    annotation=types.get(each.name, argument_type(each)),
                )
                for each in fields
            ]
            if types.keys() != {each.name for each in fields}:
                listed.append(last.replace(name="kwargs", annotation=Any))
            untyped.__signature__ = signature.replace(parameters=[*own, *listed])
        return function

    return decorator
