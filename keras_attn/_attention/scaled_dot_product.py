"""Scaled dot-product attention with several heads."""

from collections.abc import Callable

from keras import ops

from keras_attn._masks import masked_softmax, wide_dtype
from keras_attn._types import Tensor


def scaled_dot_product(
    query: Tensor,
    keys: Tensor | list[Tensor],
    values: Tensor | list[Tensor],
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the dot-product attention of all heads at once.

        context = softmax(query keysᵀ + bias) values

    The softmax is over the keys. The caller must scale the query by `1 / sqrt(head_dim)`; this is
    cheaper than scaling the scores.

    Scaled dot-product attention was introduced by [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), equation 1. Groups of query heads may share key and
    value heads ([Ainslie et al., 2023](https://arxiv.org/abs/2305.13245)).

    Args:
        query: Float tensor of shape `(batch, heads, target, head_dim)`, already scaled.
        keys: Float tensor of shape `(batch, groups, source, head_dim)`, where `groups` divides
            `heads`. Query head `h` uses key/value head `h // (heads / groups)`. A list of two such
            tensors is treated as their concatenation along the source axis.
        values: Float tensor of shape `(batch, groups, source, value_dim)`, or a list of two such
            tensors if `keys` is a list.
        mask: Boolean tensor, broadcastable to `(batch, heads, target, source)`; `True` marks keys
            that may be attended to. Defaults to `None`: no masked keys.
        bias: Float tensor, broadcastable to `(batch, heads, target, source)`, added to the scores.
            All values must be finite, see `finite_bias`. Defaults to `None`.
        dropout: Function that maps weights to weights of the same shape. The context is computed
            with the result of this function. The returned weights are the weights before dropout.
            Defaults to `None`.

    Returns:
        Tuple of the context `(batch, heads, target, value_dim)` and the weights `(batch, heads,
        target, source)`, both with the dtype of `query`.

    Masking:
        Masked keys get a weight of exactly 0. If all keys are masked for a query, its weights and
        its context are 0.

    Example:

    >>> import numpy as np
    >>> query = np.array([[[[0.0, 0.0]]]], "float32")
    >>> keys = values = np.array([[[[1.0, 2.0], [3.0, 4.0]]]], "float32")
    >>> context, weights = scaled_dot_product(query, keys, values)
    >>> np.array(context).tolist(), np.array(weights).tolist()
    ([[[[2.0, 3.0]]]], [[[[0.5, 0.5]]]])
    """
    keys, values = (parts if isinstance(parts, list) else [parts] for parts in (keys, values))
    heads, target, groups = query.shape[1], ops.shape(query)[2], keys[0].shape[1]
    rows = _grouped(query, groups)
    scores = [ops.matmul(rows, ops.transpose(part, (0, 1, 3, 2))) for part in keys]
    scores = scores[0] if len(scores) == 1 else ops.concatenate(scores, axis=-1)
    scores = _ungrouped(scores, heads, target)  # (B, H, T, S)
    if bias is not None:
        dtype = wide_dtype(scores)
        scores = ops.cast(scores, dtype) + ops.cast(bias, dtype)
    if mask is None:
        weights = softmax_over_keys(scores)
    else:
        weights = masked_softmax(scores, mask, is_finite=True)
    weights = ops.cast(weights, query.dtype)
    dropped = weights if dropout is None else dropout(weights)
    rows = _grouped(dropped, groups)
    if len(values) == 1:
        context = ops.matmul(rows, values[0])
    else:
        middle = ops.shape(values[0])[2]
        before, after = rows[..., :middle], rows[..., middle:]
        context = ops.matmul(before, values[0]) + ops.matmul(after, values[1])
    return _ungrouped(context, heads, target), weights  # (B, H, T, dv), (B, H, T, S)


def matmul_groups(rows: Tensor, columns: Tensor) -> Tensor:
    """Multiplies the rows of each head by the matrix of its group.

    Args:
        rows: Tensor of shape `(batch, heads, target, inner)`.
        columns: Tensor of shape `(batch, groups, inner, outer)`, where `groups` divides `heads`.
            The matrices are not repeated in memory.

    Returns:
        Tensor of shape `(batch, heads, target, outer)`.
    """
    products = ops.matmul(_grouped(rows, columns.shape[1]), columns)
    return _ungrouped(products, rows.shape[1], ops.shape(rows)[2])  # (B, H, T, outer)


def _grouped(rows, groups):
    """Merges the heads of each group: `(B, H, T, inner)` to `(B, G, H / G * T, inner)`."""
    batch, _, target, inner = ops.shape(rows)
    heads = rows.shape[1]
    if heads == groups:
        return rows
    return ops.reshape(rows, (batch, groups, heads // groups * target, inner))


def _ungrouped(products, heads, target):
    """Splits the heads of each group: `(B, G, H / G * T, outer)` to `(B, H, T, outer)`."""
    if products.shape[1] == heads:
        return products
    batch, _, _, outer = ops.shape(products)
    return ops.reshape(products, (batch, heads, target, outer))


def softmax_over_keys(scores: Tensor) -> Tensor:
    """Softmax over the last axis, computed in float32, or in float64 for float64 scores."""
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)  # Keras warns about a softmax over an axis of size 1.
    return ops.cast(ops.softmax(ops.cast(scores, wide_dtype(scores)), axis=-1), scores.dtype)
