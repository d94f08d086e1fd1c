"""Files of a training in its run directory: settings, and what an earlier training left."""

import contextlib
import hashlib
import json
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_attn_commands.train.settings import STORED, to_toml

HISTORY = "history.json"
GENERATED = (
    "data corpus-train corpus-valid epochs state tensorboard source.spm target.spm model.keras "
    "run.json history.json settings.toml results.json samples.txt test.npz forecast.png"
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


def check_earlier_training(
    run_dir: Path,
    values: Mapping[str, Any],
    data: Mapping[str, str],
    may_change: Collection[str],
    *,
    overwrite: bool,
    keep: Collection[str] = (),
) -> None:
    """Compares a training with an earlier one in the same run directory.

    What a program has prepared for other settings or data is removed, unless a training with them
    has started.

    Args:
        run_dir: Path of the run directory.
        values: Dict of settings. Only settings in both trainings are compared.
        data: Dict from the names of data files to their checksums.
        may_change: Names of settings that may differ.
        overwrite: Bool, whether a different training is removed.
        keep: Names of files and directories that are already those of this training. Defaults to
            `()`: none.

    Raises:
        ValueError: If a training with other settings or data has started, or the directory
            contains files of these names that no training program wrote.
    """
    path = run_dir / STORED
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
    new = {name: _as_stored(value) for name, value in values.items()}
    changed = [
        f"{name} = {before.get(name)} (now {new[name]})"
        for name in new
        if name not in may_change and before.get(name) != new[name]
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
    run_dir: Path,
    values: Mapping[str, Any],
    reasons: Mapping[str, str],
    data: Mapping[str, str],
) -> None:
    """Writes the settings of a training, and the checksums of its data, to its run directory."""
    from keras_attn.files import atomic_replace

    text = to_toml(values, reasons) + "\n[data_sha256]\n"
    text += "".join(f'"{name}" = "{checksum}"\n' for name, checksum in data.items())
    with atomic_replace(run_dir / STORED) as partial:
        partial.write_text(text, encoding="utf-8")


def finished_epochs(run_dir: Path) -> int:
    """Returns the number of finished epochs of a training: 0 if it has not started."""
    try:
        history = json.loads((run_dir / HISTORY).read_text(encoding="utf-8"))["history"]
        return max(map(len, history.values()), default=0)
    except (OSError, ValueError, KeyError, AttributeError):
        return 0


def unfinished_note(run_dir: Path) -> str:
    """Returns a sentence about a training that has not ended; empty for any other directory."""
    try:
        planned = tomllib.loads((run_dir / STORED).read_text(encoding="utf-8"))["epochs"]
    except (OSError, ValueError, KeyError):
        return ""
    finished = finished_epochs(run_dir)
    if finished >= planned:
        return ""
    return f"The training is not finished: {finished} of {planned} epochs."
