from typing import Any

import keras

from keras_attn._backend.workers import is_chief
from keras_attn._files.path_lock import PathLock
from keras_attn.training._finite_weights import FiniteWeights


class LockedCallback(keras.callbacks.Callback):
    """Base class of callbacks that write weights, and lock their path during the training.

    Acquiring the lock needs write access. An unwritable path therefore raises an error before the
    first epoch.

    Args:
        lock: `PathLock` of the path.
        saved_model: `keras.Model` whose weights are written. Defaults to `None`: the trained model.
    """

    model: Any

    def __init__(self, lock: PathLock, saved_model: keras.Model | None = None) -> None:
        super().__init__()
        self.lock = lock
        self.saved_model = saved_model
        self._finite_weights: Any = None  # `FiniteWeights` after `set_model`
        self._release_at_end = False

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        saved = model if self.saved_model is None else self.saved_model
        if self._finite_weights is None or self._finite_weights.model is not saved:
            self._finite_weights = FiniteWeights(saved)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        # `acquire` returns False if `fit` already holds the lock.
        self._release_at_end = is_chief(self.model) and self.lock.acquire()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        if self._release_at_end:
            self.lock.release()
