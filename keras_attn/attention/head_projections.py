"""Projections of multi-head attention: one product for several, split into heads."""

import itertools
from typing import Any

from keras import ops

from keras_attn._types import Tensor


def project(inputs: Tensor, kernels: list[Tensor], biases: list[Tensor] | None = None) -> Tensor:
    """Multiplies inputs by several kernels at once.

    Args:
        inputs: `(..., features)`.
        kernels: list of `(features, size)`.
        biases: list of `(size,)`. Defaults to `None`, no biases.

    Returns:
        The projections side by side, `(..., sum of sizes)`.
    """
    outputs = ops.matmul(inputs, _joined(kernels))
    # `ops.add` instead of `+`, because TensorFlow's gradient of a bias is several times faster.
    return outputs if biases is None else ops.add(outputs, _joined(biases))


def split_heads(
    projected: Tensor,
    leading: tuple[Any, ...],
    counts: list[int],
    head_dims: list[int],
    beams: int = 1,
) -> list[Tensor]:
    """Splits projections into heads.

    Projections with heads of one size are split after the transposition, which then moves all of
    them at once.

    Args:
        projected: `(batch, time, sum of sizes)`, or `(batch * beams, sum of sizes)` for a single
            time step.
        leading: tuple of int or int32 scalar, the sizes `(batch, time)` or `(batch * beams,)`.
        counts: list of int, number of heads of each projection.
        head_dims: list of int, size of each head of each projection.
        beams: int, beams of a sentence, if there is no time axis.

    Returns:
        List of `(batch, heads, time or beams, head_dim)`, one for each projection.
    """
    if len(set(head_dims)) == 1:
        heads = _heads_first(projected, leading, sum(counts), head_dims[0], beams)
        return _parts(heads, counts, axis=1)
    sizes = [count * head_dim for count, head_dim in zip(counts, head_dims, strict=True)]
    parts = zip(_parts(projected, sizes, axis=-1), counts, head_dims, strict=True)
    return [_heads_first(part, leading, count, dim, beams) for part, count, dim in parts]


def merge_heads(heads: Tensor, leading: tuple[Any, ...], size: int) -> Tensor:
    """Joins heads `(batch, heads, time or beams, head_dim)` to `(*leading, size)`.

    Args:
        heads: as above.
        leading: tuple of int or int32 scalar, `(batch, time)` or `(batch * beams,)`.
        size: int, `heads * head_dim`.
    """
    if heads.shape[2] != 1:
        heads = ops.transpose(heads, (0, 2, 1, 3))  # (B, T, H, d)
    return ops.reshape(heads, (*leading, size))


def _joined(weights):
    return weights[0] if len(weights) == 1 else ops.concatenate(weights, axis=-1)


def _heads_first(projected, leading, num_heads, head_dim, beams):
    """`(B, T, heads * size)`, or `(B*K, heads * size)`, to `(B, heads, T or K, size)`."""
    rows, *time = leading
    if not time and beams == 1:
        return ops.reshape(projected, (rows, num_heads, 1, head_dim))
    if not time:
        rows, time = rows // beams if isinstance(rows, int) else -1, (beams,)
    heads = ops.reshape(projected, (rows, *time, num_heads, head_dim))
    return ops.transpose(heads, (0, 2, 1, 3))


def _parts(tensor, sizes, axis):
    if len(sizes) == 1:
        return [tensor]
    ends = list(itertools.accumulate(sizes))
    return ops.split(tensor, ends[:-1], axis=axis)
