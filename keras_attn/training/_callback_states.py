"""States of callbacks from Keras, this package and users."""

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
from keras.callbacks import Callback

from keras_attn._backend.private_names import CALLBACK_ATTRIBUTES
from keras_attn._types import TensorDict
from keras_attn.training._saved_state import SavedFacts

REJECTED = {
    "BackupAndRestore": "Remove it: fit saves and restores the training itself.",
    "OrbaxCheckpoint": "Use keras.callbacks.ModelCheckpoint or keras_attn.training.BestCheckpoint.",
}
"""Keras callbacks that cannot resume, and what to use instead."""


def reject_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raises a `ValueError` if a callback cannot resume.

    `BackupAndRestore` replaces the restored state by an older one. A resumed `OrbaxCheckpoint`
    would write a checkpoint twice.
    """
    for callback in callbacks:
        for name, remedy in REJECTED.items():
            if isinstance(callback, getattr(keras.callbacks, name, ())):
                raise ValueError(
                    "Expected callbacks that can resume with a saved training. Received: "
                    f"{type(callback).__name__} in callbacks. {remedy}"
                )


def callbacks_of_worker(
    callbacks: Sequence[Callback], num_workers: int, is_chief: bool
) -> list[Callback]:
    """Returns the callbacks for one of several workers. Only the chief worker writes logs.

    Raises:
        ValueError: If several workers would write the same file.
    """
    checkpoint, *loggers = (
        getattr(keras.callbacks, name)
        for name in ("ModelCheckpoint", "CSVLogger", "TensorBoard", "RemoteMonitor")
    )
    if num_workers > 1 and any(isinstance(callback, checkpoint) for callback in callbacks):
        raise ValueError(
            "Expected callbacks whose files only one worker writes. Received: ModelCheckpoint in "
            f"callbacks, with {num_workers} workers. Use keras_attn.training.BestCheckpoint."
        )
    if is_chief:
        return list(callbacks)
    return [callback for callback in callbacks if not isinstance(callback, tuple(loggers))]


def reject_overwritten_averages(
    callbacks: Sequence[Callback], facts: SavedFacts, epochs: int
) -> None:
    """Raises a `ValueError` if a finished training with `SwapEMAWeights` gets more epochs.

    After the last epoch, the callback replaces the moving averages by the weights.
    """
    saved_epochs = facts.get("epochs", 0)
    is_finished = facts["step"] == facts["steps_per_epoch"] * saved_epochs
    for callback in callbacks:
        swaps = isinstance(callback, keras.callbacks.SwapEMAWeights) and callback.swap_on_epoch
        if swaps and is_finished and epochs > saved_epochs:
            raise ValueError(
                "Expected the number of epochs of the saved training, whose moving averages "
                "SwapEMAWeights(swap_on_epoch=True) replaced after the last epoch. Received: "
                f"epochs={epochs}, saved epochs={saved_epochs}. Use a new directory."
            )


def has_state(callback: Callback) -> bool:
    """Returns whether a callback's state is saved."""
    return hasattr(callback, "get_state") or bool(_keras_attributes(callback))


def get_state(callback: Any) -> TensorDict:
    """Returns a callback's state: nested lists and dicts with JSON values and arrays.

    Lists and dicts are copied, arrays are not.
    """
    custom = callback.get_state() if hasattr(callback, "get_state") else None
    names = _keras_attributes(callback)
    if not names:
        return _copy(custom)
    state = {"attributes": {name: getattr(callback, name, None) for name in names}, "own": custom}
    if isinstance(callback, keras.callbacks.CSVLogger) and os.path.exists(callback.filename):
        state["size"] = os.path.getsize(callback.filename)
    return _copy(state)


def set_state(callback: Any, state: TensorDict) -> None:
    """Restores a state that `get_state` returned."""
    names = _keras_attributes(callback)
    if not names:
        callback.set_state(_copy(state))
        return
    for name, value in _copy(state["attributes"]).items():
        if name in names:
            setattr(callback, name, value)
    if state["own"] is not None:
        callback.set_state(_copy(state["own"]))


@contextlib.contextmanager
def append_to_csv_files(states: Sequence[tuple[Callback, TensorDict]]) -> Iterator[None]:
    """Context in which each `CSVLogger` opens its file without losing the saved rows.

    Rows written after the state was saved are removed. The resumed training writes them again.

    Args:
        states: List of tuples of a callback and its saved state.
    """
    appended = []
    for callback, state in states:
        if not isinstance(callback, keras.callbacks.CSVLogger) or "size" not in state:
            continue
        size, path = state["size"], Path(str(callback.filename))
        received = path.stat().st_size if path.is_file() else 0
        if received < size:
            warnings.warn(
                f"Expected the file of the saved state, with at least {size} bytes. Received: "
                f"{callback.filename!r} with {received} bytes. The rows of the earlier epochs are "
                "missing.",
                stacklevel=6,
            )
        elif path.is_file():
            os.truncate(path, size)
            appended.append((callback, callback.append))
            callback.append = True
    yield
    for callback, append in appended:
        callback.append = append


def state_key(callback: Callback) -> str:
    """Returns a string that identifies a callback: its class, what it monitors and its file."""
    values = [getattr(callback, name, None) for name in ("monitor", "filename", "filepath")]
    parts = [Path(value).name for value in values if isinstance(value, str)]
    return " ".join([type(callback).__name__, *parts])


def match_states(
    callbacks: Sequence[Callback], keys: Sequence[str], states: Sequence[TensorDict]
) -> list[tuple[Callback, TensorDict]]:
    """Returns tuples of a callback and its saved state, without callbacks that have none.

    States with equal keys belong to the callbacks in their order. Earlier versions used the class
    name as the key.
    """
    remaining, pairs = list(zip(keys, states, strict=True)), []
    for callback in callbacks:
        names = (state_key(callback), type(callback).__name__)
        match = next((pair for pair in remaining if pair[0] in names), None)
        if match is not None:
            remaining.remove(match)
            pairs.append((callback, match[1]))
    return pairs


def _keras_attributes(callback: Callback) -> list[str]:
    """Returns the names of the attributes that a Keras callback changes."""
    return [
        name
        for class_name, names in CALLBACK_ATTRIBUTES.items()
        if isinstance(callback, getattr(keras.callbacks, class_name, ()))
        for name in names
    ]


def _copy(value: Any) -> Any:
    """Copies the lists and dicts in a nested value."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    return value
