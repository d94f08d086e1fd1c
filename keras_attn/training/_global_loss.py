import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._backend.padded_batches import first_rows
from keras_attn._backend.private_names import compiled_losses, implicit_mask, set_implicit_mask
from keras_attn._backend.replicas import global_mean, num_replicas
from keras_attn._types import Mask, Tensor


@dataclasses.dataclass(frozen=True)
class ReplicaRows:
    """Row numbers of a replica: int32 scalar tensors."""

    real: Tensor
    padded: Tensor

    @property
    def at_least_one(self) -> Tensor:
        """Number of rows that losses and metrics receive, because not all accept an empty batch."""
        return ops.maximum(self.real, 1)


replica_rows: contextvars.ContextVar[ReplicaRows | None]
replica_rows = contextvars.ContextVar("replica_rows", default=None)
"""Rows of the replica whose step is traced in this thread."""


class GlobalLoss:
    """Keras loss that is reduced over the rows of all replicas.

    Keras losses compute a mean on each replica and average the means. If the replicas have
    different numbers of rows, valid mask entries or sums of sample weights, the result differs from
    the global batch's mean. This class computes the row values with `loss.call`, and divides their
    sum by the sum of all replicas' divisors.

    Args:
        loss: `keras.losses.Loss` that does not override `__call__`.

    Call arguments:
        y_true, y_pred, sample_weight: See `keras.losses.Loss`.

    Returns:
        Scalar tensor, see `global_mean`.
    """

    def __init__(self, loss: keras.losses.Loss) -> None:
        self.loss = loss
        self.name = loss.name

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        if num_replicas() == 1:
            return self.loss(y_true, y_pred, sample_weight)
        values = self._values(y_true, y_pred)  # (B, ...)
        masks = [mask for mask in map(implicit_mask, (y_pred, values)) if mask is not None]
        mask = None if not masks else masks[0] if len(masks) == 1 else masks[0] & masks[1]
        reduction = self.loss.reduction
        total = self._of_real_rows(_reduce("sum", values, mask, sample_weight))
        if reduction == "sum":
            return num_replicas() * global_mean(total, ops.ones_like(total))
        weights = sample_weight if reduction == "mean_with_sample_weight" else None
        ones = ops.ones_like(values)
        ones_sum = _reduce("sum", ones, mask, weights)
        # The mean of ones is `ones_sum / divisor`, divided by the number of replicas.
        mean = num_replicas() * _reduce(reduction, ones, mask, weights)
        return global_mean(total, self._of_real_rows(ops.divide_no_nan(ones_sum, mean)))

    def problem(self, y_true: Tensor, y_pred: Tensor) -> str | None:
        """Returns why the loss has no value for each row, or `None`.

        Args:
            y_true, y_pred: Tensors with a few rows, as examples.
        """
        if self.loss.reduction in (None, "none"):
            return f"the loss {self.name!r} has reduction={self.loss.reduction!r}"
        values = ops.convert_to_numpy(self._values(y_true, y_pred))
        rows = y_pred.shape[0]
        if values.ndim == 0 or values.shape[0] != rows:
            return f"the loss {self.name!r} does not return a value for each row"
        for row in range(rows):
            part = slice(row, row + 1)
            alone = ops.convert_to_numpy(self._values(y_true[part], y_pred[part]))
            if not np.allclose(alone[0], values[row], rtol=1e-3, atol=1e-5, equal_nan=True):
                return f"the loss {self.name!r} of a row depends on other rows"
        return None

    def _of_real_rows(self, value: Tensor) -> Tensor:
        """Returns 0 on a replica without real rows."""
        rows = replica_rows.get()
        return value if rows is None else ops.where(rows.real > 0, value, 0)

    def _values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        dtype = self.loss.dtype
        return self.loss.call(ops.convert_to_tensor(y_true, dtype), _keep_mask(y_pred, dtype))


class LossOfRealRows:
    """Loss from this package, which is reduced over all replicas and accepts an empty batch."""

    def __init__(self, loss: keras.losses.Loss) -> None:
        self.loss = loss
        self.name = loss.name

    def __call__(self, *arguments: Tensor | None) -> Any:
        rows = replica_rows.get()
        return self.loss(*(arguments if rows is None else first_rows(arguments, rows.real)))


class _Reduction(keras.losses.Loss):
    """Reduces values that are passed as `y_pred`."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_pred


def _reduce(reduction: str, values: Tensor, mask: Mask | None, sample_weight: Tensor | None) -> Any:
    values = ops.copy(values)
    set_implicit_mask(values, mask)
    return _Reduction(reduction=reduction, dtype=values.dtype)(values, values, sample_weight)


def _keep_mask(tensor: Tensor, dtype: str) -> Tensor:
    converted = ops.convert_to_tensor(tensor, dtype)
    mask = implicit_mask(tensor)
    if mask is not None:
        set_implicit_mask(converted, mask)
    return converted


@contextlib.contextmanager
def replaced_losses(model: keras.Model, losses: Sequence[Callable[..., Tensor]]) -> Iterator[None]:
    """Replaces the losses of a compiled model, unless the list of new losses is empty."""
    if not losses:
        yield
        return
    entries = compiled_losses(model)
    before = list(entries)
    pairs = zip(before, losses, strict=True)
    entries[:] = [entry._replace(loss=loss) for entry, loss in pairs]
    try:
        yield
    finally:
        entries[:] = before
