from os import PathLike
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn._backend.workers import is_chief, wait_for_workers
from keras_attn._files.checkpoint_file import (
    read_checkpoint,
    write_checkpoint,
)
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorDict
from keras_attn.training.finite_weights import FiniteWeights


class AverageWeights(keras.callbacks.Callback):
    """Keeps the weights of the last epochs, to set the model to their mean after training.

    Averaging checkpoints: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 6.1. It
    often gives some tenths of a BLEU point for nothing, most of all on small data. An epoch that
    ends with NaN or infinite weights does not count. While it trains, no other training can use
    the directory.

    Args:
        directory: where one file of weights per kept epoch lies, and one of the epoch before them.
        num_epochs: int >= 1, epochs to average. Default 5.

    Raises:
        ValueError: `num_epochs` is no positive integer.

    Example:

    ```python
    average = AverageWeights("run/average", num_epochs=5)
    fit(trainer, batches, epochs=20, directory="run", callbacks=[average])
    average.apply()  # the weights of all models that share these layers change
    ```
    """

    model: Any

    def __init__(self, directory: str | PathLike[str], num_epochs: int = 5) -> None:
        super().__init__()
        check_positive_integer("num_epochs", num_epochs)
        self.directory = Path(directory)
        self.num_epochs = num_epochs
        self.kept_epochs = []
        self._finite_weights: Any = None
        self.lock = PathLock(directory, "weights")

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._finite_weights = FiniteWeights.of(model, self._finite_weights)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # It also shows that the directory can be written, not only after the first epoch.
        self._release_at_end = is_chief(self.model) and self.lock.acquire()  # False: `fit` holds it

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._release_at_end:
            self.lock.release()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._finite_weights.first_nonfinite(self.model) is not None:
            return
        if is_chief(self.model):
            write_checkpoint(self._path(epoch), self.model.get_weights(), {"epoch": epoch})
        # In a second training without a kill between them there may be one of this number.
        self.kept_epochs = [kept for kept in self.kept_epochs if kept != epoch] + [epoch]
        # One more stays: after a kill, a state from before this epoch may be what goes on.
        while len(self.kept_epochs) > self.num_epochs + 1:
            former = self.kept_epochs.pop(0)
            if is_chief(self.model):
                self._path(former).unlink(missing_ok=True)

    def apply(self, model: keras.Model | None = None) -> None:
        """Sets the weights to the mean of the kept epochs'.

        Args:
            model: the model to set. Default: the one that was trained.

        Raises:
            ValueError: no epoch has ended yet, or a file is damaged.
        """
        if not self.kept_epochs:
            raise ValueError("Expected at least one epoch of training before apply(). Received: 0")
        changed: Any = self.model if model is None else model
        wait_for_workers(changed)  # for the chief, which writes the files
        kept = self.kept_epochs[-self.num_epochs :]
        epochs = [read_checkpoint(self._path(epoch))[0] for epoch in kept]
        changed.set_weights(
            [np.mean(weights, axis=0, dtype="float64") for weights in zip(*epochs, strict=True)]
        )

    def _path(self, epoch):
        return self.directory / f"weights-{epoch:04d}.npz"

    def get_state(self) -> dict[str, Any]:
        """What `TrainingCheckpoint` stores."""
        return {"kept_epochs": list(self.kept_epochs)}

    def set_state(self, state: TensorDict) -> None:
        """Takes up what `get_state` gave."""
        self.kept_epochs = list(state["kept_epochs"])
