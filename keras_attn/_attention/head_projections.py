"""Projections of multi-head attention."""

import itertools
from typing import Any

from keras import ops

from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_integer


def project_heads(
    inputs: Tensor, kernels: list[Tensor], biases: list[Tensor] | None = None
) -> Tensor:
    """Multiplies inputs by several kernels in one matrix product.

    Args:
        inputs: Tensor of shape `(..., features)`.
        kernels: List of tensors of shape `(features, size)`.
        biases: List of tensors of shape `(size,)`. Defaults to `None`: no biases.

    Returns:
        The concatenated projections, of shape `(..., sum of sizes)`.
    """
    outputs = ops.matmul(inputs, _joined(kernels))
    # Speed: with `ops.add` instead of `+`, TensorFlow computes the gradient of the bias several
    # times faster.
    return outputs if biases is None else ops.add(outputs, _joined(biases))


def split_heads(
    projected: Tensor,
    leading: tuple[Any, ...],
    counts: list[int],
    head_dims: list[int],
    beams: int | Tensor = 1,
) -> list[Tensor]:
    """Splits concatenated projections into heads.

    If all heads have the same size, a single transposition precedes the split.

    Args:
        projected: Tensor of shape `(batch, time, sum of sizes)`, or `(batch * beams, sum of sizes)`
            for a single time step.
        leading: Tuple of ints or scalar int32 tensors, the sizes `(batch, time)` or `(batch *
            beams,)`.
        counts: List of ints, number of heads in each projection.
        head_dims: List of ints, head size in each projection.
        beams: Int or scalar int32 tensor, number of beams per batch entry, if `projected` has no
            time axis.

    Returns:
        List of tensors of shape `(batch, heads, time or beams, head_dim)`, one for each projection.
    """
    if len(set(head_dims)) == 1:
        heads = _heads_first(projected, leading, sum(counts), head_dims[0], beams)
        return _parts(heads, counts, axis=1)
    sizes = [count * head_dim for count, head_dim in zip(counts, head_dims, strict=True)]
    parts = zip(_parts(projected, sizes, axis=-1), counts, head_dims, strict=True)
    return [_heads_first(part, leading, count, dim, beams) for part, count, dim in parts]


def merge_heads(heads: Tensor, leading: tuple[Any, ...], size: int) -> Tensor:
    """Merges heads `(batch, heads, time or beams, head_dim)` to `(*leading, size)`.

    Args:
        heads: Tensor of shape `(batch, heads, time or beams, head_dim)`.
        leading: Tuple of ints or scalar int32 tensors, `(batch, time)` or `(batch * beams,)`.
        size: Int, `heads * head_dim`.
    """
    if heads.shape[2] != 1:
        heads = ops.transpose(heads, (0, 2, 1, 3))  # (B, T, H, d)
    return ops.reshape(heads, (*leading, size))


def _joined(weights):
    return weights[0] if len(weights) == 1 else ops.concatenate(weights, axis=-1)


def _heads_first(projected, leading, num_heads, head_dim, beams):
    """Transposes `(B, T, heads * size)` or `(B*K, heads * size)` to `(B, heads, T or K, size)`."""
    rows, *time = leading
    if not time and is_integer(beams) and beams == 1:
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
