import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_attn._types import TensorDict

_RISING_EPOCHS = 3


class WarnOfProblems(keras.callbacks.Callback):
    """Warns during a training, if its logs or weights show a common problem.

    - The loss is NaN or infinite.
    - After the warm-up of the learning rate, the loss is still close to `ln(vocabulary_size)`, the
      loss of a model that gives all tokens the same probability.
    - The validation loss has increased in three epochs in a row.
    - Trainable weights have not changed in the first epoch, for example because no gradient
      reaches them.

    Each warning is issued once.

    Args:
        vocabulary_size: Positive int, number of tokens of a model whose loss is the mean
            crossentropy of a token. Defaults to `None`: the loss is not compared.
        warmup_steps: Int >= 0, number of steps in which the learning rate increases. Defaults to
            `0`.
        warn: Function that takes the text of a warning. Defaults to `None`: `warnings.warn`.

    Example:

    >>> from keras_attn.training import WarnOfProblems
    >>> callback = WarnOfProblems(warn=print)
    >>> for epoch, loss in enumerate([3.0, 3.1, 3.2, 3.3]):
    ...     callback.on_epoch_end(epoch, {"val_loss": loss})
    The validation loss has increased in the epochs 2 to 4, from 3 to 3.3: the model learns ...
    """

    def __init__(
        self,
        vocabulary_size: int | None = None,
        warmup_steps: int = 0,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.warmup_steps = warmup_steps
        self._warn = warnings.warn if warn is None else warn
        self._warned: set[str] = set()
        self._losses: list[float] = []
        self._before: list[tuple[float, float]] | None = None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if epoch == 0 and self._before is None:
            self._before = [_checksum(weight) for weight in self._trained.trainable_variables]

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        logs = logs or {}
        loss = float(logs.get("loss", 0.0))
        if not math.isfinite(loss):
            self._once(
                "nonfinite",
                f"The loss is {loss} in epoch {epoch + 1}. Stop the training, and train with a "
                "lower learning rate, or look for NaN in the data.",
            )
        if self._before is not None and epoch == 0:
            self._check_weights()
        self._check_start(loss, logs)
        self._check_validation(epoch, logs)

    def _check_start(self, loss: float, logs: Mapping[str, float]) -> None:
        if self.vocabulary_size is None or "loss" not in logs:
            return
        uniform = math.log(self.vocabulary_size)
        if int(self._trained.optimizer.iterations) >= self.warmup_steps and loss > uniform - 0.5:
            self._once(
                "start",
                f"After the warm-up of {self.warmup_steps} steps, the loss is {loss:.4g}, and a "
                f"model that gives all {self.vocabulary_size:,} tokens the same probability has "
                f"{uniform:.4g}: the model has not begun to learn. Try a higher or a lower "
                "learning rate, and check that sources and targets belong together.",
            )

    def _check_validation(self, epoch: int, logs: Mapping[str, float]) -> None:
        if "val_loss" not in logs:
            return
        self._losses = [*self._losses, float(logs["val_loss"])][-_RISING_EPOCHS - 1 :]
        pairs = list(zip(self._losses, self._losses[1:], strict=False))
        if len(pairs) == _RISING_EPOCHS and all(after > before for before, after in pairs):
            self._once(
                "validation",
                f"The validation loss has increased in the epochs {epoch + 2 - _RISING_EPOCHS} to "
                f"{epoch + 1}, from {self._losses[0]:.4g} to {self._losses[-1]:.4g}: the model "
                "learns the training data by heart. Train for fewer epochs, or with more dropout "
                "or a smaller model.",
            )

    def _check_weights(self) -> None:
        weights = self._trained.trainable_variables
        if self._before is None or len(self._before) != len(weights):  # built later
            return
        unchanged = [
            weight.path
            for weight, before in zip(weights, self._before, strict=True)
            if weight.shape and _checksum(weight) == before
        ]
        self._before = None
        if unchanged:
            names = ", ".join(unchanged[:5]) + (", ..." if len(unchanged) > 5 else "")
            self._once(
                "weights",
                f"{len(unchanged)} of {len(weights)} trainable weights have not changed in the "
                f"first epoch: {names}. If this is not intended, check that the loss depends on "
                "them.",
            )

    @property
    def _trained(self) -> Any:  # Keras' annotation of `model` is incomplete
        return self.model

    def _once(self, name: str, text: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(text)

    def get_state(self) -> TensorDict:
        """Returns the last validation losses and the issued warnings, which `fit` saves."""
        return {"losses": self._losses, "warned": sorted(self._warned)}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self._losses = list(state["losses"])
        self._warned = set(state["warned"])


def _checksum(weight: keras.Variable) -> tuple[float, float]:
    values = np.asarray(keras.ops.convert_to_numpy(weight), "float64")
    return float(values.sum()), float(np.square(values).sum())
