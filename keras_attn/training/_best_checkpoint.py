import contextlib
import math
import re
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

import keras
import numpy as np

from keras_attn._backend.private_names import metric_directions
from keras_attn._backend.workers import is_chief
from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.path_lock import PathLock
from keras_attn._types import TensorDict
from keras_attn.training._locked_callback import LockedCallback
from keras_attn.training._run_directory import RunDirectory

Direction: TypeAlias = Literal["min", "max"]

_LOWER = ("loss", "perplexity", "crossentropy")
_HIGHER = ("bleu", "accuracy")
"""Ends of names whose direction is known, also if they are not metrics of the model."""


class BestCheckpoint(LockedCallback):
    """Saves a model whenever an epoch improves on the best monitored value so far.

    The file is replaced atomically: if the process is killed during a save, the previous file
    remains. There are two differences from `keras.callbacks.ModelCheckpoint`. The saved model can
    be different from the trained model, for example a `GenerationModel` with the same layers. And
    `keras_attn.training.fit` restores the best value when a training resumes. Epochs that end with
    NaN or infinite weights are skipped. During training, the callback locks the path, so no other
    training can write to it.

    Args:
        path: Path that ends with `.keras` (to save the model) or `.weights.h5` (to save its
            weights); or a `RunDirectory`, to save its model.
        monitor: String, key in the logs of an epoch. Defaults to `"val_perplexity"`.
        mode: String, `"min"`, `"max"` or `"auto"`. With `"auto"`, metrics from Keras and this
            package choose the mode, as in `keras.callbacks.ModelCheckpoint`. For other keys, the
            mode is `"min"` for keys that end with `loss`, `perplexity` or `crossentropy`, and
            `"max"` for `bleu` and `accuracy`. Otherwise pass `"min"` or `"max"`. Defaults to
            `"auto"`.
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

    def __init__(
        self,
        path: str | PathLike[str] | RunDirectory,
        monitor: str = "val_perplexity",
        mode: Literal["auto", "min", "max"] = "auto",
        saved_model: keras.Model | None = None,
    ) -> None:
        self._run = path if isinstance(path, RunDirectory) else None
        path = path.model_path if isinstance(path, RunDirectory) else path
        super().__init__(PathLock(path, Path(path).name, is_file=True), saved_model)
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
        self.mode: Direction | Literal["auto"] = mode
        self.best: float | None = None
        self.best_epoch: int | None = None

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if Path(self.path).is_dir():
            raise FileExistsError(
                f"Expected path to be a file. Received: path={str(self.path)!r}, a directory. "
                "Append the name of a file."
            )
        if all(getattr(metric, "built", True) for metric in self.model.metrics):
            self._direction()  # On TensorFlow, the first step may build the metrics.
        super().on_train_begin(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
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
    def _file(self) -> Iterator[Path]:
        """Yields a path to write the file. Only the chief worker keeps its file.

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

    def _is_better(self, value: float, direction: Direction) -> bool:
        if math.isnan(value):
            return False
        if self.best is None:
            return True
        return value > self.best if direction == "max" else value < self.best

    def _direction(self) -> Direction:
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

    def _number(self, value: float) -> float:
        if np.ndim(value):
            raise ValueError(
                f"Expected monitor to be a number. Received: monitor={self.monitor!r}, an array of "
                f"shape {np.shape(value)}. Use a metric that returns one number, such as "
                'F1Score(average="macro").'
            )
        return float(value)

    def get_state(self) -> TensorDict:
        """Returns `best` and `best_epoch`, which `fit` saves."""
        return {"best": self.best, "best_epoch": self.best_epoch}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self.best = state["best"]
        self.best_epoch = state["best_epoch"]


def monitored_direction(model: keras.Model, monitor: str) -> Direction | None:
    """Returns the direction in which a value in the logs improves.

    As in `keras.callbacks.ModelCheckpoint`, the metric of this name determines the direction. If
    the model has several outputs, their metrics are found by their keys in the logs, such as
    `val_decoder_accuracy`.

    Args:
        model: Compiled `keras.Model`. Keras creates its metrics before or in the first step.
        monitor: String, key in the logs of an epoch.

    Returns:
        String `"min"` or `"max"`, or `None` if the direction is unknown.
    """
    name = monitor.removeprefix("val_")
    directions = list(metric_directions(model))
    for key in (name, re.sub(r"_\d+$", "", name)):  # Keras numbers metrics of the same name
        of_key = {direction for name, direction in directions if name == key} - {None}
        if of_key:
            return None if len(of_key) > 1 else "max" if of_key == {"up"} else "min"
    if name.endswith(_LOWER):
        return "min"
    return "max" if name.endswith(_HIGHER) else None
