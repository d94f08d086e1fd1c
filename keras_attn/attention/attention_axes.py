"""Attention over chosen axes of inputs of any rank: those axes become time, the others rows."""

import math
from collections.abc import Sequence

from keras import ops

from keras_attn._types import Tensor


class AttentionAxes:
    """Turns inputs `(batch, ..., features)` into `(rows, time, features)`, and results back.

    Args:
        axes: tuple of int, the axes of an input over which is attended, negative ones counted from
            the end; `None` for all between batch and features.
        query, value: `(batch, ..., features)`, of equal sizes in the axes that are not attended
            over.

    Raises:
        ValueError: for an axis that is none between batch and features.
    """

    def __init__(self, axes: Sequence[int] | None, query: Tensor, value: Tensor) -> None:
        rank = len(query.shape)
        self.axes = check_axes(axes, rank)
        self.row_axes = [axis for axis in range(rank - 1) if axis not in self.axes]
        self.row_sizes = [ops.shape(query)[axis] for axis in self.row_axes]
        self.query_sizes, self.value_sizes = (
            [ops.shape(inputs)[axis] for axis in self.axes] for inputs in (query, value)
        )

    def fold(self, inputs: Tensor) -> Tensor:
        """`(batch, ..., features)` to `(rows, time, features)`."""
        order = [*self.row_axes, *self.axes, len(inputs.shape) - 1]
        sizes = [ops.shape(inputs)[axis] for axis in self.axes]
        features = inputs.shape[-1]
        return ops.reshape(ops.transpose(inputs, order), (self._rows, math.prod(sizes), features))

    def fold_padding(self, mask: Tensor | None) -> Tensor | None:
        """`(batch, ...)`, without features, to `(rows, time)`; `None` to `None`."""
        return None if mask is None else self.fold(mask[..., None])[..., 0]

    def fold_mask(self, mask: Tensor | None) -> Tensor | None:
        """An attention mask to `(rows, 1 or heads, target, source)`; `None` to `None`.

        Args:
            mask: ends with the attended axes of the query and of the value; before them come the
                batch, then the other axes as far as they are given, then the heads.
        """
        if mask is None:
            return None
        given = len(mask.shape) - 2 * len(self.axes)
        if not 1 <= given <= len(self.row_axes) + 1:
            raise ValueError(
                "attention_mask must end with the attended axes of the query and of the value, "
                f"with 1 to {len(self.row_axes) + 1} axes before them. Received: attention_mask "
                f"with shape {tuple(mask.shape)} for attention_axes={self.axes}."
            )
        for _ in range(len(self.row_axes) + 1 - given):
            mask = ops.expand_dims(mask, given)
        heads = mask.shape[len(self.row_axes)]
        sizes = [self.query_sizes, self.value_sizes]
        mask = ops.broadcast_to(mask, [*self.row_sizes, heads, *sizes[0], *sizes[1]])
        return ops.reshape(mask, (self._rows, heads, *map(math.prod, sizes)))

    def unfold(self, outputs: Tensor) -> Tensor:
        """`(rows, time, features)` to `(batch, ..., features)`, laid out as the query."""
        features = outputs.shape[-1]
        outputs = ops.reshape(outputs, (*self.row_sizes, *self.query_sizes, features))
        order = [*self.row_axes, *self.axes, len(outputs.shape) - 1]
        return ops.transpose(outputs, [order.index(axis) for axis in range(len(order))])

    def unfold_scores(self, scores: Tensor) -> Tensor:
        """`(rows, heads, target, source)` to `(batch, ..., heads, target ..., source ...)`."""
        heads = scores.shape[1]
        return ops.reshape(scores, (*self.row_sizes, heads, *self.query_sizes, *self.value_sizes))

    @property
    def _rows(self):
        return math.prod(self.row_sizes)


def check_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes over which an input of this rank is attended, as a tuple."""
    if axes is None:
        return tuple(range(1, rank - 1))
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if len(set(counted)) < len(counted) or not all(0 < axis < rank - 1 for axis in counted):
        raise ValueError(
            "attention_axes must be different axes between batch and features. Received: "
            f"attention_axes={axes} for inputs of rank {rank}."
        )
    return counted
