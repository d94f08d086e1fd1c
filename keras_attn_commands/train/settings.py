"""Settings of training programs: fields of a dataclass, read from options and a TOML file."""

import dataclasses
import difflib
import inspect
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import (
    BOOL,
    NONNEGATIVE_INTEGER,
    POSITIVE_INTEGER,
    Flag,
    Kind,
    choice,
    numbers,
    option,
    option_names,
    optional,
    unchecked,
)

STORED = "settings.toml"
"""Name of the file in a run directory with the settings of its training."""

SHARE = numbers("Float in [0, 1)", "a number in [0, 1)", lambda value: 0 <= value < 1)
PATH = Kind("Path", "a path", lambda value: value if value is None else Path(value))
TEXT = unchecked("String")
_FORMS = {"Positive int": ("N", int), "Int >= 0": ("N", int), "Path": ("PATH", Path)}
"""Dict from titles of kinds to the name and the type of their values on the command line."""

Warn: TypeAlias = Callable[[str], object]
"""Function that shows the text of a warning."""

Strategy = Literal["auto", "none", "mirrored"]


def setting(
    default: Any,
    kind: Kind,
    text: str,
    *,
    by_data: bool = False,
    metavar: str | None = None,
    name: str | None = None,
) -> Any:
    """Returns the dataclass field of a setting.

    Args:
        default: Default value.
        kind: `Kind` of the accepted values.
        text: String, what the setting means, with its unit. `--help` appends the default.
        by_data: Bool, whether `None`, the default, means a value that depends on the data. The
            type of the field is that of this value, which replaces `None`. Defaults to `False`.
        metavar: String, name of the value in `--help`. Defaults to `None`: by `kind`.
        name: String, name of the option, such as `"--fill"`. Defaults to `None`: by the field.
    """
    form, parse = _FORMS.get(kind.title, ("X", float) if "loat" in kind.title else ("TEXT", str))
    if by_data:
        kind, shown = dataclasses.replace(optional(kind), choices=kind.choices), "by the data"
    else:
        shown = "none" if default in (None, "") else str(default)
    help_text = text if default is False else f"{text}. Default: {shown}"
    flag = Flag(help_text.replace("%", "%%"), name, metavar=metavar or form, parse=parse)
    return option(default, kind, text, flag)


@dataclasses.dataclass(kw_only=True)
class TrainingSettings:
    """Training"""  # the title of the group in `--help`

    run_dir: Path = setting(Path("build/run"), PATH, "run directory to write", metavar="RUN")
    epochs: int = setting(
        None, POSITIVE_INTEGER, "number of passes over the training data", by_data=True
    )
    patience: int = setting(
        0,
        NONNEGATIVE_INTEGER,
        "stop after this number of epochs without a lower validation loss. 0: never",
    )
    seed: int = setting(1, NONNEGATIVE_INTEGER, "seed of weights, order and dropout")
    strategy: Strategy = setting(
        "auto", choice(Strategy), "distribution over the devices, see make_strategy"
    )
    tensorboard: bool = setting(False, BOOL, "write logs for TensorBoard to RUN/tensorboard")
    overwrite: bool = setting(
        False, BOOL, "remove an earlier training with other settings or data from RUN"
    )

    dry_run: bool = setting(
        False, BOOL, "run 20 steps, print the expected time and memory, and exit"
    )


MAY_CHANGE = {"run_dir", "epochs", "patience", "strategy", "tensorboard"}
"""Settings that may differ when a training is resumed."""
_OF_A_CALL = ("overwrite", "dry_run")
"""Settings that are not stored."""


def groups(settings: type) -> Iterator[tuple[str, list[dataclasses.Field[Any]]]]:
    """Yields title and fields of each class of settings, base classes in their order."""
    fields = {field.name: field for field in dataclasses.fields(settings)}
    for cls in (each for each in settings.__mro__ if each is not object):
        names = [name for name in inspect.get_annotations(cls) if name in fields]
        if names:
            yield inspect.cleandoc(cls.__doc__ or "").splitlines()[0], [fields[n] for n in names]


def read_settings(path: Path, settings: type) -> dict[str, Any]:
    """Reads settings from a TOML file, such as the `settings.toml` of a run directory.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is not TOML, or has an unknown setting.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            Message("Expected a TOML file. Received: ", Argument("config", str(path)), f", {error}")
        ) from error
    values = {name: value for name, value in values.items() if not isinstance(value, dict)}
    names = option_names(settings)
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            advice = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(names)}."
            raise ValueError(f"Expected settings in {str(path)!r}. Received: {name}. {advice}")
    return values


def check_settings(settings: Any) -> None:
    """Checks and converts the values of all settings.

    Raises:
        ValueError: If a value is not accepted. The message contains the name as an `Argument`.
    """
    for field in dataclasses.fields(settings):
        value = field.metadata["kind"].check(field.name, getattr(settings, field.name))
        setattr(settings, field.name, value)


def fill_settings(settings: Any, choices: Mapping[str, tuple[Any, str]]) -> dict[str, str]:
    """Sets the settings that are `None`.

    Args:
        settings: Settings of a program, which are changed.
        choices: Dict from names to a value and the reason for it.

    Returns:
        Dict from the names of the changed settings to the reasons that are not empty.
    """
    reasons = {}
    for name, (value, reason) in choices.items():
        if getattr(settings, name) is None:
            setattr(settings, name, value)
            reasons[name] = reason
    return {name: reason for name, reason in reasons.items() if reason}


def values_of(settings: Any) -> dict[str, Any]:
    """Returns the values of all settings that are stored, in the order of `--help`."""
    names = [field.name for _, group in groups(type(settings)) for field in group]
    return {name: getattr(settings, name) for name in names if name not in _OF_A_CALL}


def to_toml(values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Writes settings as TOML. `None` is left out, because TOML has no such value.

    Args:
        values: Dict from names to values.
        comments: Dict from names to comments for the ends of the lines. Defaults to `None`.
    """
    lines = []
    for name, value in values.items():
        if value is None:
            continue
        text = str(value) if isinstance(value, Path) else value
        comment = (comments or {}).get(name)
        # JSON strings, numbers, bools and lists of these are also TOML.
        line = f"{name} = {json.dumps(text, ensure_ascii=False)}"
        lines.append(f"{line}  # {comment}" if comment else line)
    return "".join(f"{line}\n" for line in lines)
