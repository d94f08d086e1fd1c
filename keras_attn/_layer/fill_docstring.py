"""Inserts docstring sections of a base class into docstrings of subclasses."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import TypeVar

from keras_attn_checks.options import fill_options

Class = TypeVar("Class", bound=type)
_SECTIONS = {"arguments": "Args", "call_arguments": "Call arguments", "returns": "Returns"}


def fill_docstring(base: type) -> Callable[[Class], Class]:
    """Class decorator that inserts docstring sections of a base class.

    A line `{{arguments}}`, `{{call_arguments}}` or `{{returns}}` is replaced by the section `Args`,
    `Call arguments` or `Returns` of `base`. The entry `decoder` of `Args` is omitted, because each
    subclass of `Search` documents this argument itself. A line `{{options}}` is replaced by the
    options of the class that `base` does not have, see `keras_attn_checks.options`.

    Args:
        base: Class whose docstring contains the sections.

    Returns:
        The decorator.
    """
    docstring = inspect.getdoc(base) or ""

    def section(match: re.Match[str]) -> str:
        title = _SECTIONS[match[2]]
        section = re.search(rf"^{title}:\n(.*?)(?=^\S|\Z)", docstring, re.DOTALL | re.MULTILINE)
        assert section is not None, f"{base.__name__} documents no {title}."
        text = re.sub(r"\A    decoder: .*\n(?:     .*\n)*", "", section[1].rstrip())
        return _indented(text, match[1][4:])

    def decorator(cls: Class) -> Class:
        inherited = {field.name for field in _fields(base)}
        own_fields = [field for field in _fields(cls) if field.name not in inherited]
        text = fill_options(cls.__doc__ or "", own_fields)
        cls.__doc__ = re.sub(r"^( +)\{\{(\w+)\}\}$", section, text, flags=re.MULTILINE)
        return cls

    return decorator


def _fields(cls):
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _indented(text, indent):
    return "\n".join(indent + line if line else line for line in text.split("\n"))
