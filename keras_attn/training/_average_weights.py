from os import PathLike
from pathlib import Path

import keras
import numpy as np

from keras_attn._backend.workers import is_chief, wait_for_workers
from keras_attn._files.checkpoint_file import read_checkpoint, write_checkpoint
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorDict
from keras_attn.training._locked_callback import LockedCallback


class AverageWeights(LockedCallback):
    """Averages the weights of the last epochs.

        weights = (weights_1 + ... + weights_n) / n

    Here `weights_1` to `weights_n` are the weights at the ends of the last n epochs. [Vaswani et
    al., 2017](https://arxiv.org/abs/1706.03762), section 6.1, introduced this average for
    Transformers. It often improves BLEU by some tenths of a point, especially with little training
    data. Epochs that end with NaN or infinite weights are skipped. During training, the callback
    locks the directory, so no other training can write to it.

    Args:
        path: Path of the directory for the weights. It contains a file for each of the last
            `num_epochs + 1` epochs, because a training that resumes may repeat the last epoch.
        num_epochs: Positive int, number of epochs to average. Defaults to `5`.

    Raises:
        ValueError: If `num_epochs` is not a positive integer.

    Example:

    ```python
    average = AverageWeights("run/average", num_epochs=5)
    fit(trainer, batches, epochs=20, directory="run", callbacks=[average])
    average.apply()  # also changes other models that share layers with the trained model
    ```
    """

    def __init__(self, path: str | PathLike[str], num_epochs: int = 5) -> None:
        super().__init__(PathLock(path, "weights"))
        check_positive_integer("num_epochs", num_epochs)
        self.path = Path(path)
        self.num_epochs = num_epochs
        self.kept_epochs: list[int] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self._finite_weights.first_nonfinite(self.model) is not None:
            return
        if is_chief(self.model):
            write_checkpoint(self._path(epoch), self.model.get_weights(), {"epoch": epoch})
        # If the model is trained twice, the same epoch number can occur again.
        self.kept_epochs = [kept for kept in self.kept_epochs if kept != epoch] + [epoch]
        # Keep one additional epoch: a training that resumes may repeat the last epoch.
        while len(self.kept_epochs) > self.num_epochs + 1:
            former = self.kept_epochs.pop(0)
            if is_chief(self.model):
                self._path(former).unlink(missing_ok=True)

    def apply(self, model: keras.Model | None = None) -> None:
        """Sets the weights to the mean of the kept epochs.

        Args:
            model: Model whose weights are set. Defaults to `None`: the trained model.

        Raises:
            ValueError: If no epoch with finite weights has finished, or a file with weights is
                damaged.
        """
        if not self.kept_epochs:
            raise ValueError(
                "Expected at least one finished epoch with finite weights before `apply`. "
                "Received: kept_epochs=[]. Train the model first."
            )
        changed = self.model if model is None else model
        wait_for_workers(changed)  # the chief worker writes the files
        kept = self.kept_epochs[-self.num_epochs :]
        epochs = [read_checkpoint(self._path(epoch))[0] for epoch in kept]
        changed.set_weights(
            [np.mean(weights, axis=0, dtype="float64") for weights in zip(*epochs, strict=True)]
        )

    def _path(self, epoch: int) -> Path:
        return self.path / f"weights-{epoch:04d}.npz"

    def get_state(self) -> TensorDict:
        """Returns the kept epochs, which `fit` saves."""
        return {"kept_epochs": list(self.kept_epochs)}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self.kept_epochs = list(state["kept_epochs"])
