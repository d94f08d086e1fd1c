import math
from typing import Any, NoReturn

from keras_attn_runtime._array_types import LARGEST_INT32
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.json_values import is_list, is_object

_MISSING = object()


class SettingsReader:
    """Reads and checks values in a JSON object, a part of a model file's settings.

    An error message contains the value's path in the settings, such as `target.max_length`.

    Args:
        place: string, the object's path in the settings, with a dot at its end, or "".
        entries: dict, the JSON object.
    """

    def __init__(self, place: str, entries: dict[str, Any]) -> None:
        self.place = place
        self.entries = entries

    def get(self, name: str, kind: type[Any] | tuple[type[Any], ...], default: Any = ...) -> Any:
        """Returns the value for `name`, or the default without such a value; checks the type."""
        if name not in self.entries and default is not ...:
            return default
        value = self.entries.get(name, _MISSING)
        # In Python, bool is a subclass of int.
        if (
            value is _MISSING
            or not isinstance(value, kind)
            or (isinstance(value, bool) and kind is not bool)
        ):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            self.refuse(name, f"of type {' or '.join(item.__name__ for item in kinds)}")
        return value

    def part(self, name: str) -> "SettingsReader":
        """Returns the `SettingsReader` for a nested object."""
        return SettingsReader(f"{self.place}{name}.", self.get(name, dict))

    def parts(self, name: str) -> "list[SettingsReader]":
        """Returns a `SettingsReader` for each object in a list. A missing list is empty."""
        values: list[Any] = self.get(name, list, [])
        if not all(is_object(value) for value in values):
            self.refuse(name, "that is a list of objects")
        return [
            SettingsReader(f"{self.place}{name}[{index}].", value)
            for index, value in enumerate(values)
        ]

    def ids(self, name: str) -> list[int]:
        """Returns a list of ids, by default an empty list."""
        ids: list[Any] = self.get(name, list, [])
        if not all(isinstance(id_, int) and 0 <= id_ <= LARGEST_INT32 for id_ in ids):
            self.refuse(name, "that is a list of ids")
        return ids

    def integer(self, name: str, least: int, most: int = LARGEST_INT32) -> int:
        """Returns an integer in [least, most]."""
        value = self.get(name, int)
        if not least <= value <= most:
            self.refuse(name, f"in [{least}, {most}]")
        return value

    def strings(self, name: str) -> list[str]:
        """Returns a list of strings, by default an empty list."""
        values: list[Any] = self.get(name, list, [])
        if not all(isinstance(value, str) for value in values):
            self.refuse(name, "that is a list of strings")
        return values

    def levels(self, name: str) -> list[float]:
        """Returns a list of numbers in (0, 1)."""
        values: list[Any] = self.get(name, list)
        if not all(isinstance(value, float) and 0 < value < 1 for value in values):
            self.refuse(name, "that is a list of numbers in (0, 1)")
        return values

    def number(self, name: str) -> float:
        """Returns a number in [0, 2**31 - 1]."""
        value = self.get(name, (int, float))
        if not 0 <= value <= LARGEST_INT32:  # false for nan too
            self.refuse(name, f"in [0, {LARGEST_INT32}]")
        return value

    def numbers(self, name: str, count: int, default: float) -> tuple[float, ...]:
        """Returns `count` finite numbers. If the value is a single number, it is repeated."""
        value = self.get(name, (int, float, list), default)
        values: list[Any] = value if is_list(value) else [value] * count
        are_numbers = all(
            isinstance(item, (int, float)) and not isinstance(item, bool) and math.isfinite(item)
            for item in values
        )
        if not are_numbers or len(values) != count:
            self.refuse(name, f"that is a finite number or a list of {count} of them")
        return tuple(float(item) for item in values)

    def refuse(self, name: str, expected: str) -> NoReturn:
        """Raises an error for a value; `expected` completes "Expected a value ..."."""
        received = self.entries.get(name, "nothing")
        raise ModelFileError(
            f"Expected a value {expected} in the settings of the file. Received: "
            f"{self.place}{name}={received!r}. The file is damaged; export it again."
        )
