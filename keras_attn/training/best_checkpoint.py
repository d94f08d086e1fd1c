import contextlib
import math
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from keras_attn._backend.workers import is_chief
from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.path_lock import PathLock
from keras_attn._types import TensorDict
from keras_attn.training.finite_weights import FiniteWeights


class BestCheckpoint(keras.callbacks.Callback):
    """Saves a model after each epoch whose monitored value is the best so far.

    The file is replaced in one step: a kill leaves the former best. Unlike
    `keras.callbacks.ModelCheckpoint` it can save another model than the one that is trained, such
    as a `GenerationModel` with the same layers, and knows the best value again after `fit` resumed.
    An epoch that ends with NaN or infinite weights does not count.
    While it trains, no other training can use the path.

    Args:
        path: file name ending with `.keras` (the model) or `.weights.h5` (its weights).
        monitor: string, key of the epoch's logs. Default `"val_perplexity"`.
        mode: `"min"`, `"max"` or `"auto"`: the highest if the key ends with `bleu` or `accuracy`,
            else the lowest. Default `"auto"`.
        saved_model: optional model to save. Default: the one that is trained.

    Attributes:
        best: float, best value so far; None before the first.
        best_epoch: int, its epoch, counted from 0; None before the first.

    Raises:
        ValueError: a path or mode of another form, or (after an epoch) no such key in the logs.
        OSError: when training begins, nothing can be written to that path.

    Example:

    ```python
    fit(trainer, batches, epochs=20, validation_batches=validation,
        callbacks=[BestCheckpoint("run/model.keras", saved_model=translator)])
    ```
    """

    model: Any

    def __init__(
        self,
        path: str | PathLike[str],
        monitor: str = "val_perplexity",
        mode: str = "auto",
        saved_model: keras.Model | None = None,
    ) -> None:
        super().__init__()
        if not str(path).endswith((".keras", ".weights.h5")):
            raise ValueError(
                f"Expected a path ending with .keras or .weights.h5. Received: path={str(path)!r}"
            )
        if mode not in ("auto", "min", "max"):
            raise ValueError(f'Expected mode "auto", "min" or "max". Received: mode={mode!r}')
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
                f"Expected the name of a file. Received: path={str(self.path)!r}, a directory."
            )
        # It also shows that the path can be written, not only after the first epoch.
        self._release_at_end = is_chief(self.model) and self.lock.acquire()  # False: `fit` holds it

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._release_at_end:
            self.lock.release()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        if self.monitor not in logs:
            raise ValueError(
                f"Expected monitor to be one of {sorted(logs)}. "
                f"Received: monitor={self.monitor!r}. Keys with `val_` need validation data, or a "
                "callback that stands before this one."
            )
        value = float(logs[self.monitor])
        if not self._is_better(value):
            return
        model = self.model  # Also for `saved_model`: on JAX this updates the variables of both.
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
        """Yields the file to write. Only that of the chief stays.

        All workers save the model, because on JAX Keras communicates while it saves.
        """
        if is_chief(self.model):
            with atomic_replace(self.path) as partial:
                yield partial
        else:
            with tempfile.TemporaryDirectory() as directory:
                yield Path(directory) / Path(self.path).name

    def _is_better(self, value):
        if math.isnan(value):
            return False
        if self.best is None:
            return True
        highest = self.mode == "max" or (
            self.mode == "auto" and self.monitor.endswith(("bleu", "accuracy"))
        )
        return value > self.best if highest else value < self.best

    def get_state(self) -> dict[str, Any]:
        """What `TrainingCheckpoint` stores."""
        return {"best": self.best, "best_epoch": self.best_epoch}

    def set_state(self, state: TensorDict) -> None:
        """Takes up what `get_state` gave."""
        self.best = state["best"]
        self.best_epoch = state["best_epoch"]
