"""Attention over selected axes, for inputs of any rank.

The attended axes are merged into one time axis. The batch axis and all other axes are merged into
one row axis.
"""

import math
from collections.abc import Sequence

from keras import ops

from keras_attn._types import Tensor


class AttentionAxes:
    """Reshapes inputs `(batch, ..., features)` to `(rows, time, features)`, and results back.

    Args:
        axes: Tuple of ints, the axes to attend over. Negative axes count from the end. `None`
            selects all axes between batch and features.
        query: Tensor of shape `(batch, ..., features)`.
        value: Tensor of shape `(batch, ..., features)`. All axes except the attended axes and the
            features have the same sizes as in `query`.

    Raises:
        ValueError: If an axis is not between batch and features, or occurs twice.
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
        """Reshapes `(batch, ..., features)` to `(rows, time, features)`."""
        order = [*self.row_axes, *self.axes, len(inputs.shape) - 1]
        sizes = [ops.shape(inputs)[axis] for axis in self.axes]
        features = inputs.shape[-1]
        return ops.reshape(ops.transpose(inputs, order), (self._rows, math.prod(sizes), features))

    def fold_padding(self, mask: Tensor | None) -> Tensor | None:
        """Reshapes a padding mask `(batch, ...)` to `(rows, time)`. `None` remains `None`."""
        return None if mask is None else self.fold(mask[..., None])[..., 0]

    def fold_mask(self, mask: Tensor | None) -> Tensor | None:
        """Reshapes an attention mask to `(rows, 1 or heads, target, source)`.

        Args:
            mask: Boolean tensor or `None`. Its axes are, in this order: the batch axis, any number
                of the axes that are not attended over, optionally the heads, the attended axes of
                the query, and the attended axes of the value. Missing axes are broadcast.

        Returns:
            Boolean tensor of shape `(rows, 1 or heads, target, source)`, or `None` if `mask` is
            `None`.
        """
        if mask is None:
            return None
        given = len(mask.shape) - 2 * len(self.axes)
        if not 1 <= given <= len(self.row_axes) + 1:
            raise ValueError(
                "Expected attention_mask to end with the attended axes of the query and of the "
                f"value, preceded by 1 to {len(self.row_axes) + 1} axes. Received: attention_mask "
                f"with shape {tuple(mask.shape)}, attention_axes={self.axes}."
            )
        for _ in range(len(self.row_axes) + 1 - given):
            mask = ops.expand_dims(mask, given)
        heads = mask.shape[len(self.row_axes)]
        sizes = [self.query_sizes, self.value_sizes]
        mask = ops.broadcast_to(mask, [*self.row_sizes, heads, *sizes[0], *sizes[1]])
        return ops.reshape(mask, (self._rows, heads, *map(math.prod, sizes)))

    def unfold(self, outputs: Tensor) -> Tensor:
        """Reshapes `(rows, time, features)` to `(batch, ..., features)`, like the query."""
        features = outputs.shape[-1]
        outputs = ops.reshape(outputs, (*self.row_sizes, *self.query_sizes, features))
        order = [*self.row_axes, *self.axes, len(outputs.shape) - 1]
        return ops.transpose(outputs, [order.index(axis) for axis in range(len(order))])

    def unfold_scores(self, scores: Tensor) -> Tensor:
        """Splits the axes of scores `(rows, heads, target, source)`.

        Returns:
            Tensor of shape `(batch, ..., heads, target ..., source ...)`.
        """
        heads = scores.shape[1]
        return ops.reshape(scores, (*self.row_sizes, heads, *self.query_sizes, *self.value_sizes))

    @property
    def _rows(self):
        return math.prod(self.row_sizes)


def check_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Returns the attended axes of an input with rank `rank` as a tuple of positive ints."""
    if axes is None:
        return tuple(range(1, rank - 1))
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if len(set(counted)) < len(counted) or not all(0 < axis < rank - 1 for axis in counted):
        raise ValueError(
            "Expected attention_axes to be distinct axes between batch and features. Received: "
            f"attention_axes={axes} for inputs of rank {rank}."
        )
    return counted
