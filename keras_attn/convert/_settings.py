"""Checkpoint settings: the treatment of each key in its JSON files.

No setting is ignored. An architecture's tables list every key that its configuration can contain,
with one of three treatments:

    mapped      the converter reads it
    irrelevant  it does not change results; the note is the reason
    refused     it would change results; only harmless values are accepted
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from keras_attn.convert._conversion_error import ConversionError, Problems


@dataclasses.dataclass(frozen=True)
class Setting:
    """Treatment of a key.

    Args:
        treatment: String, `"mapped"`, `"irrelevant"` or `"refused"`.
        note: String, the argument that the key is mapped to, or the reason for the treatment.
        default: Value for a missing key, if mapped.
        check: Function `(settings)` that raises a `ConversionError` if the model does not support a
            mapped key's value. Defaults to `None`: no check.
        harmless: Function `(value, settings)` for refused keys. It returns whether the value does
            not change results.
        kind: Type of a mapped key's values: `int`, `float`, `bool`, `str`, `list` or `dict`.
            Defaults to `None`: the type of `default`, or any type if `default` is `None`.
        minimum: Int, smallest int value. Defaults to `1`.
        is_rate: Bool, whether a mapped float must be in [0, 1). Defaults to `False`.
        nullable: Bool, whether a mapped key may be `null`. Defaults to `False`: only if `default`
            is `None`.
    """

    treatment: str
    note: str
    default: Any = None
    harmless: Callable[[Any, Any], bool] | None = None
    check: Callable[[Any], Any] | None = None
    kind: type | None = None
    minimum: int = 1
    nullable: bool = False
    is_rate: bool = False

    def expected_type(self, value: Any) -> str | None:
        """Returns a description of a mapped key's type, if a value has a different type."""
        kind = self.kind or (None if self.default is None else type(self.default))
        if kind is None or (value is None and (self.nullable or self.default is None)):
            return None
        if kind is int:
            is_right = _is_number(value, int) and value >= self.minimum
            return None if is_right else f"an integer of at least {self.minimum}"
        if kind is float and self.is_rate:
            return None if _is_number(value, (int, float)) and 0 <= value < 1 else "in [0, 1)"
        if kind is float:
            return None if _is_number(value, (int, float)) else "a finite number"
        return None if isinstance(value, kind) else _KINDS[kind]


_KINDS = {bool: "true or false", str: "a string", list: "a list", dict: "an object"}
"""Dict from setting types to their names in JSON."""


def mapped(
    note: str,
    default: Any = None,
    check: Callable[[Any], Any] | None = None,
    kind: type | None = None,
    minimum: int = 1,
    nullable: bool = False,
) -> Setting:
    """Returns the `Setting` for a key that the converter reads."""
    return Setting("mapped", note, default, None, check, kind, minimum, nullable)


def irrelevant(reason: str) -> Setting:
    """Returns the `Setting` for a key that does not change results."""
    return Setting("irrelevant", reason)


def refused(reason: str, *harmless: Any) -> Setting:
    """Returns the `Setting` for a key with harmless values only, such as `None`."""
    return Setting("refused", reason, harmless=lambda value, _: _is_one_of(value, harmless))


def refused_unless(reason: str, harmless: Callable[[Any, Any], bool]) -> Setting:
    """Returns the `Setting` for a key whose harmless values depend on other settings."""
    return Setting("refused", reason, harmless=harmless)


@dataclasses.dataclass(frozen=True)
class SettingReport:
    """Treatment of one key in a JSON file.

    Args:
        file: String, file name.
        name: String, the key.
        value: The value.
        treatment: String, `"mapped"`, `"irrelevant"`, `"harmless"` or `"ignored"`.
        note: String, the argument that the key is mapped to, or the reason for the treatment.
    """

    file: str
    name: str
    value: Any
    treatment: str
    note: str

    def __str__(self) -> str:
        value = repr(self.value)
        value = value if len(value) <= 40 else f"{value[:37]}..."
        return f"{self.file}: {self.name} = {value}: {self.treatment}, {self.note}"


class Settings(Mapping[str, Any]):
    """Settings in one JSON file. A missing key has the default in `table`.

    Args:
        file: String, file name.
        values: Dict, file content.
        table: Dict from keys to `Setting`s.
        null_is_default: Bool, whether the value `null` is the same as a missing key, as in
            `generation_config.json`. Defaults to `False`.
        replaced: Dict from settings that the caller replaced to their values in the file. Defaults
            to `None`: none.

    Attributes:
        reads: Set, the keys read so far.
    """

    def __init__(
        self,
        file: str,
        values: Mapping[str, Any],
        table: Mapping[str, Setting],
        null_is_default: bool = False,
        replaced: Mapping[str, Any] | None = None,
    ) -> None:
        self.null_is_default = null_is_default
        self.replaced = replaced or {}
        self.file = file
        self.values_in_file = dict(values)
        self.table = table
        self.reads: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        setting = self.table[name]
        if setting.treatment != "mapped":
            raise KeyError(f"{name} is {setting.treatment}, not mapped")
        self.reads.add(name)
        value = self.values_in_file.get(name, setting.default)
        return setting.default if value is None and self.null_is_default else value

    def __iter__(self) -> Iterator[str]:
        return iter(name for name, setting in self.table.items() if setting.treatment == "mapped")

    def __len__(self) -> int:
        return sum(setting.treatment == "mapped" for setting in self.table.values())

    def check_types(self) -> None:
        """Raises a `ConversionError` that names all mapped keys with a wrong type."""
        problems = Problems()
        for name, value in self.values_in_file.items():
            setting = self.table.get(name)
            if setting is None or setting.treatment != "mapped":
                continue
            expected = setting.expected_type(value)
            if expected is None or (value is None and self.null_is_default):
                continue
            with problems.collect():
                raise ConversionError(
                    f"Expected {name} in {self.file} to be {expected}. Received: {name}={value!r}. "
                    "Correct the file, or copy it again."
                )
        problems.raise_all()

    def check(self, ignored: Iterable[str] = ()) -> list[SettingReport]:
        """Returns the treatment of each key in the file.

        Args:
            ignored: Names of keys to accept although they are refused or unknown.

        Raises:
            ConversionError: If a key that is not in `ignored` is unknown, or is refused and its
                value is not harmless, or if the model does not support a mapped key's value. The
                message names all such keys.
        """
        ignored, reports, wrong = set(ignored), [], []
        problems = Problems()
        for name, value in self.values_in_file.items():
            setting = self.table.get(name)
            if setting is not None and setting.treatment != "refused":
                reports.append(self._report(name, setting.treatment, setting.note))
            elif setting is not None and setting.harmless and setting.harmless(value, self):
                reports.append(self._report(name, "harmless", setting.note))
            elif name in ignored:
                reports.append(self._report(name, "ignored", "at your request"))
            else:
                reason = "an unknown setting" if setting is None else setting.note
                wrong.append(f"{name}={value!r} ({reason})")
        with problems.collect():
            if wrong:
                raise ConversionError(
                    f"Expected settings in {self.file} that can be converted exactly. Received: "
                    f"{'; '.join(wrong)}. If a setting does not change the results that you need, "
                    "accept it with --ignore-setting NAME or ignore_settings=[NAME]."
                )
        for setting in self.table.values():
            if setting.check is not None:
                with problems.collect():
                    setting.check(self)
        problems.raise_all()
        return reports

    def _report(self, name, treatment, note):
        if name in self.replaced:
            note = f"{note}; at your request instead of {self.replaced[name]!r}"
        return SettingReport(self.file, name, self.values_in_file[name], treatment, note)


def check_ignored(names: Iterable[str], *parts: Settings) -> None:
    """Checks that the settings to ignore are in one of the checkpoint's files.

    Args:
        names: Names of settings.
        *parts: `Settings` from each file.

    Raises:
        ConversionError: If a name is in no file.
    """
    needless = sorted(set(names) - {name for part in parts for name in part.values_in_file})
    if needless:
        raise ConversionError(
            "Expected ignore_settings to be names of settings in the checkpoint. Received: "
            f"{needless}, which the checkpoint does not have. Omit them."
        )


def _is_one_of(value, allowed):
    # `1 == True` in Python, but a number and a flag are different settings.
    return any(
        value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed
    )


def _is_number(value: Any, kinds: type | tuple[type, ...]) -> TypeGuard[float]:
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
