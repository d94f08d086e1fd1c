import contextlib
import math
import re
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn._backend.private_names import metric_directions
from keras_attn._backend.workers import is_chief
from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.path_lock import PathLock
from keras_attn._types import TensorDict
from keras_attn.training.finite_weights import FiniteWeights
from keras_attn.training.run_directory import RunDirectory

_LOWER = ("loss", "perplexity", "crossentropy")
_HIGHER = ("bleu", "accuracy")
"""Ends of names whose direction is known, also if they are not metrics of the model."""


class BestCheckpoint(keras.callbacks.Callback):
    """Saves a model whenever an epoch improves on the best monitored value so far.

    The file is replaced atomically: if the process is killed during a save, the file of the
    previous best model remains. There are two differences from `keras.callbacks.ModelCheckpoint`.
    The saved model can be different from the trained model, for example a `GenerationModel` with
    the same layers. And `keras_attn.training.fit` restores the best value when a training resumes.
    Epochs that end with NaN or infinite weights are skipped. During training, the callback locks
    the path, so no other training can write to it.

    Args:
        path: Path that ends with `.keras` (to save the model) or `.weights.h5` (to save its
            weights); or a `RunDirectory`, to save its model.
        monitor: String, key in the logs of an epoch. Defaults to `"val_perplexity"`.
        mode: String, `"min"`, `"max"` or `"auto"`. With `"auto"`, the metrics of Keras and of this
            package choose the mode, as in `keras.callbacks.ModelCheckpoint`. If no metric of this
            name has a direction, the mode is `"min"` for keys that end with `loss`, `perplexity` or
            `crossentropy`, and `"max"` for `bleu` and `accuracy`. All other keys need `"min"` or
            `"max"`. Defaults to `"auto"`.
        saved_model: `keras.Model` to save. Defaults to `None`: the trained model.

    Attributes:
        best: Float, best value so far; `None` before the first epoch.
        best_epoch: Int, epoch of the best value, counted from 0; `None` before the first epoch.

    Raises:
        ValueError: If `path` or `mode` is invalid; if the logs of an epoch do not contain `monitor`
            as a number; or if `mode` is `"auto"` and the direction of `monitor` is unknown.
        OSError: If the path cannot be written when training begins.

    Example:

    ```python
    fit(trainer, batches, epochs=20, validation_data=validation,
        callbacks=[BestCheckpoint("best.keras", saved_model=translator)])
    ```
    """

    model: Any

    def __init__(
        self,
        path: str | PathLike[str] | RunDirectory,
        monitor: str = "val_perplexity",
        mode: str = "auto",
        saved_model: keras.Model | None = None,
    ) -> None:
        super().__init__()
        self._run = path if isinstance(path, RunDirectory) else None
        if isinstance(path, RunDirectory):
            path = path.model_path
        if not str(path).endswith((".keras", ".weights.h5")):
            raise ValueError(
                "Expected path to end with .keras (model) or .weights.h5 (weights). Received: "
                f"path={str(path)!r}. Rename the file."
            )
        if mode not in ("auto", "min", "max"):
            raise ValueError(
                f"Expected mode to be one of ('auto', 'min', 'max'). Received: mode={mode!r}."
            )
        self.path = path
        self.monitor = monitor
        self.mode = mode
        self.saved_model = saved_model
        self.best = None
        self.best_epoch = None
        self._finite_weights: Any = None
        self.lock = PathLock(path, Path(path).name, is_file=True)

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        saved = model if self.saved_model is None else self.saved_model
        self._finite_weights = FiniteWeights.of(saved, self._finite_weights)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if Path(self.path).is_dir():
            raise FileExistsError(
                f"Expected path to be a file. Received: path={str(self.path)!r}, a directory. "
                "Append the name of a file."
            )
        if all(getattr(metric, "built", True) for metric in self.model.metrics):
            self._direction()  # On TensorFlow, the first step may build the metrics.
        # Acquiring the lock needs write access. An unwritable path therefore raises an error before
        # the first epoch. `acquire` returns False if `fit` already holds the lock.
        self._release_at_end = is_chief(self.model) and self.lock.acquire()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._release_at_end:
            self.lock.release()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        if self.monitor not in logs:
            raise ValueError(
                f"Expected monitor to be one of {sorted(logs)}. "
                f"Received: monitor={self.monitor!r}. Pass validation data for keys that begin "
                "with `val_`. If another callback logs the key, list that callback before this one."
            )
        value = self._number(logs[self.monitor])
        if not self._is_better(value, self._direction()):
            return
        # On JAX, reading `self.model` copies the trained values into the variables of the model.
        # `saved_model` can share these variables, so read `self.model` in both cases.
        model = self.model
        if self.saved_model is not None:
            model = self.saved_model
        if self._finite_weights.first_nonfinite(model) is not None:
            return
        with self._file() as partial:
            if str(self.path).endswith(".keras"):
                model.save(partial)
            else:
                model.save_weights(partial)
        self.best = value
        self.best_epoch = epoch

    @contextlib.contextmanager
    def _file(self):
        """Yields the path of a file to write. Only the chief worker keeps its file.

        All workers must save the model, because on JAX saving is a collective operation.
        """
        if is_chief(self.model):
            replacement = atomic_replace(self.path)
            if self._run is not None:
                replacement = self._run.replace_model()
            with replacement as partial:
                yield partial
        else:
            with tempfile.TemporaryDirectory() as directory:
                yield Path(directory) / Path(self.path).name

    def _is_better(self, value, direction):
        if math.isnan(value):
            return False
        if self.best is None:
            return True
        return value > self.best if direction == "max" else value < self.best

    def _direction(self):
        if self.mode != "auto":
            return self.mode
        direction = monitored_direction(self.model, self.monitor)
        if direction is None:
            raise ValueError(
                "Expected a monitor whose direction is known. Received: "
                f"monitor={self.monitor!r}, mode='auto'. Pass mode='max' if higher values are "
                "better, otherwise mode='min'."
            )
        return direction

    def _number(self, value):
        if np.ndim(value):
            raise ValueError(
                f"Expected monitor to be a number. Received: monitor={self.monitor!r}, an array of "
                f"shape {np.shape(value)}. Use a metric that returns one number, such as "
                'F1Score(average="macro").'
            )
        return float(value)

    def get_state(self) -> dict[str, Any]:
        """Returns `best` and `best_epoch`, which `TrainingCheckpoint` saves."""
        return {"best": self.best, "best_epoch": self.best_epoch}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self.best = state["best"]
        self.best_epoch = state["best_epoch"]


def monitored_direction(model: keras.Model, monitor: str) -> str | None:
    """Returns the direction in which a value in the logs improves.

    As in `keras.callbacks.ModelCheckpoint`, the metric of this name has a direction. Metrics of one
    of several outputs are found by their keys in the logs, such as `val_decoder_accuracy`.

    Args:
        model: Compiled `keras.Model`. Keras creates its metrics before or in the first step.
        monitor: String, key in the logs of an epoch.

    Returns:
        String `"min"` or `"max"`, or `None` if the direction is unknown.
    """
    name = monitor.removeprefix("val_")
    directions = list(metric_directions(model))
    for key in (name, re.sub(r"_\d+$", "", name)):  # Keras numbers metrics of the same name
        found = {direction for each, direction in directions if each == key} - {None}
        if len(found) == 1:
            return "max" if found == {"up"} else "min"
        if found:
            return None
    if name.endswith(_LOWER):
        return "min"
    return "max" if name.endswith(_HIGHER) else None
