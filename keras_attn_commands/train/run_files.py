"""Files of a training in its run directory: settings, and what an earlier training left."""

import contextlib
import hashlib
import json
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_attn_commands.train.settings import (
    MAY_CHANGE,
    STORED,
    TrainingSettings,
    fill_settings,
    to_toml,
    values_of,
)

HISTORY = "history.json"
GENERATED = (
    "data corpus-train corpus-valid epochs state tensorboard source.spm target.spm model.keras "
    "run.json history.json settings.toml results.json samples.txt test.npz forecast.png "
    "attention.html"
).split()
"""Names of the files and directories that a training writes to its run directory."""
_TRAINED = ("state", "model.keras")


@contextlib.contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Context manager that creates a run directory and locks it."""
    from keras_attn.files import PathLock

    run_dir.mkdir(parents=True, exist_ok=True)
    with PathLock(run_dir, "run"):
        yield


def checksums(directory: Path) -> dict[str, str]:
    """Returns the SHA-256 checksums of all files in a directory."""
    sums = {}
    for path in sorted(directory.iterdir()):
        with open(path, "rb") as file:
            sums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def begin_training(
    settings: TrainingSettings,
    data: Mapping[str, str],
    reasons: Mapping[str, str],
    may_change: Collection[str],
    keep: Collection[str] = (),
) -> None:
    """Compares a training with an earlier one, and prints and stores its settings.

    Args:
        settings: Settings of a program, complete.
        data: Dict from the names of data files to their checksums.
        reasons: Dict from names of settings to the reasons for their values.
        may_change: Names of settings of this program that may differ.
        keep: See `check_earlier_training`.

    Raises:
        ValueError: See `check_earlier_training`.
    """
    check_earlier_training(settings, data, may_change, keep=keep)
    print(to_toml(values_of(settings), reasons), end="", flush=True)
    store_settings(settings, data, reasons)


def check_earlier_training(
    settings: TrainingSettings,
    data: Mapping[str, str],
    may_change: Collection[str],
    names: Collection[str] | None = None,
    keep: Collection[str] = (),
) -> None:
    """Compares a training with an earlier one in the same run directory.

    What a program has prepared for other settings or data is removed, unless a training with them
    has started. With `overwrite`, it is removed, too, unless this is a dry run.

    Args:
        settings: Settings of a program.
        data: Dict from the names of data files to their checksums.
        may_change: Names of settings of this program that may differ.
        names: Names of the settings to compare. Defaults to `None`: all.
        keep: Names of files and directories that are already those of this training. Defaults to
            `()`: none.

    Raises:
        ValueError: If a training with other settings or data has started, or the directory
            contains files of these names that no training program wrote.
    """
    run_dir, path = settings.run_dir, settings.run_dir / STORED
    overwrite = settings.overwrite and not settings.dry_run
    if not path.exists():
        found = [name for name in GENERATED if (run_dir / name).exists() and name not in keep]
        if found and not overwrite:
            raise ValueError(
                f"Expected a new directory, or that of an interrupted training. Received: "
                f"{str(run_dir)!r}, with {', '.join(found)} but without {STORED}. Choose another "
                f"run directory, or pass --overwrite to remove {', '.join(found)}."
            )
        remove_training(run_dir, keep)
        return
    trained = any((run_dir / name).exists() for name in _TRAINED)
    before = tomllib.loads(path.read_text(encoding="utf-8"))
    data_before = before.pop("data_sha256", {})
    new = {name: _as_stored(value) for name, value in values_of(settings).items()}
    changed = [
        f"{name} = {before.get(name)} (now {new[name]})"
        for name in (new if names is None else names)
        if name not in {*MAY_CHANGE, *may_change} and before.get(name) != new[name]
    ]
    changed += [f"the text of {name}" for name in data if data_before.get(name) != data[name]]
    if not changed:
        return
    if trained and not overwrite:
        raise ValueError(
            f"Expected the settings and data of the training in {str(run_dir)!r}. Received: "
            f"differences in {', '.join(changed)}. Choose another run directory, or pass "
            "--overwrite to remove the earlier training."
        )
    remove_training(run_dir, keep)


def fill_training_settings(
    settings: TrainingSettings, choices: Mapping[str, tuple[Any, str]]
) -> dict[str, str]:
    """Sets the settings that are `None`, as `fill_settings` does, also to continue a training.

    The automatic warm-up depends on `epochs`, which may change. A training that continues in the
    same run directory keeps its warm-up.

    Args:
        settings: Settings of a program, which are changed.
        choices: Dict from names to a value and the reason for it.

    Returns:
        Dict from the names of the changed settings to the reasons that are not empty.
    """
    run_dir, path = settings.run_dir, settings.run_dir / STORED
    continues = any((run_dir / name).exists() for name in _TRAINED) and not settings.overwrite
    if continues and path.exists():
        before = tomllib.loads(path.read_text(encoding="utf-8"))
        value, _ = choices.get("warmup_steps", (None, ""))
        earlier = before.get("warmup_steps", value)
        if value not in (None, earlier):
            choices = {**choices, "warmup_steps": (earlier, "as in the training so far")}
    return fill_settings(settings, choices)


def _as_stored(value):
    return str(value) if isinstance(value, Path) else value


def remove_training(run_dir: Path, keep: Collection[str] = ()) -> None:
    """Removes what a training wrote to its run directory."""
    for name in GENERATED:
        path = run_dir / name
        if name in keep:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def store_settings(
    settings: TrainingSettings, data: Mapping[str, str], reasons: Mapping[str, str]
) -> None:
    """Writes the settings of a training, and the checksums of its data, to its run directory."""
    from keras_attn.files import atomic_replace

    text = to_toml(values_of(settings), reasons) + "\n[data_sha256]\n"
    text += "".join(f'"{name}" = "{checksum}"\n' for name, checksum in data.items())
    with atomic_replace(settings.run_dir / STORED) as partial:
        partial.write_text(text, encoding="utf-8")


def write_results(settings: TrainingSettings, results: Mapping[str, Any]) -> None:
    """Writes `results.json`: results, training time and settings."""
    from keras_attn.files import atomic_replace

    times = json.loads((settings.run_dir / HISTORY).read_text(encoding="utf-8"))
    content = {
        **results,
        **{name: times[name] for name in ("minutes", "cpu_minutes")},
        "arguments": values_of(settings),
    }
    text = json.dumps(content, indent=2, default=str, allow_nan=False, ensure_ascii=False)
    with atomic_replace(settings.run_dir / "results.json") as partial:
        partial.write_text(f"{text}\n", encoding="utf-8")


def export_command() -> str:
    """Returns the first words of a command that exports a run, which needs TensorFlow."""
    import keras

    is_tensorflow = keras.backend.backend() == "tensorflow"
    return f"{'' if is_tensorflow else 'KERAS_BACKEND=tensorflow '}keras-attn export"


def finished_epochs(run_dir: Path) -> int:
    """Returns the number of finished epochs of a training: 0 if it has not started."""
    try:
        history = json.loads((run_dir / HISTORY).read_text(encoding="utf-8"))["history"]
        return max(map(len, history.values()), default=0)
    except (OSError, ValueError, KeyError, AttributeError):
        return 0


def stored_settings(run_dir: Path) -> dict[str, Any]:
    """Returns the settings that a training program stored, empty for other directories."""
    try:
        return tomllib.loads((run_dir / STORED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def unfinished_note(run_dir: Path) -> str:
    """Returns a sentence about a training that has not ended; empty for any other directory."""
    planned = stored_settings(run_dir).get("epochs", 0)
    finished = finished_epochs(run_dir)
    if finished >= planned:
        return ""
    return f"The training is not finished: {finished} of {planned} epochs."
