"""Scaled dot-product attention of several heads."""

from collections.abc import Callable

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.masks import MASKED_SCORE, masked_softmax, wide_dtype


def scaled_dot_product(
    query: Tensor,
    keys: Tensor | list[Tensor],
    values: Tensor | list[Tensor],
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Dot-product attention of all heads at once.

    `context = softmax(query keysᵀ + bias) values`, with the softmax over the keys.

    Vaswani et al. 2017, "Attention Is All You Need" (https://arxiv.org/abs/1706.03762, equation 1);
    key/value heads shared by groups of query heads: Ainslie et al. 2023, "GQA"
    (https://arxiv.org/abs/2305.13245). The caller has already scaled the query by
    `1 / sqrt(head_dim)`, which is cheaper than to scale the scores.

    Args:
        query: `(batch, heads, target, head_dim)` floats, scaled.
        keys: `(batch, groups, source, head_dim)` floats; `groups` divides `heads`, and query head
            `h` attends to key/value head `h // (heads / groups)`. Or a list of two such
            tensors, the sources of the second behind those of the first.
        values: `(batch, groups, source, value_dim)` floats, or a list as that of the keys.
        mask: `None` (everything may be attended) or boolean, broadcastable to
            `(batch, heads, target, source)`, True where a key may be attended.
        bias: `None` or floats, broadcastable to `(batch, heads, target, source)`, added to the
            scores.
        dropout: `None` or a function that maps weights to weights, applied before the values are
            averaged. The returned weights are those before dropout.

    Returns:
        Context `(batch, heads, target, value_dim)` and weights `(batch, heads, target, source)`,
        both of the dtype of `query`.

    Masking: masked weights are exactly 0. A query that may attend to nothing gets zero weights and
        a zero context.

    Example:

    >>> import numpy as np
    >>> query = np.array([[[[0.0, 0.0]]]], "float32")
    >>> keys = values = np.array([[[[1.0, 2.0], [3.0, 4.0]]]], "float32")
    >>> context, weights = scaled_dot_product(query, keys, values)
    >>> np.array(context).tolist(), np.array(weights).tolist()
    ([[[[2.0, 3.0]]]], [[[[0.5, 0.5]]]])
    """
    keys, values = (each if isinstance(each, list) else [each] for each in (keys, values))
    heads, target, groups = query.shape[1], ops.shape(query)[2], keys[0].shape[1]
    rows = _grouped(query, groups)
    scores = [ops.matmul(rows, ops.transpose(part, (0, 1, 3, 2))) for part in keys]
    scores = scores[0] if len(scores) == 1 else ops.concatenate(scores, axis=-1)
    scores = _ungrouped(scores, heads, target)  # (B, H, T, S)
    if bias is not None:
        dtype = wide_dtype(scores)
        scores = ops.cast(scores, dtype) + ops.cast(_finite(bias), dtype)
    weights = softmax_over_keys(scores) if mask is None else masked_softmax(scores, mask)
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


def _finite(bias):
    """Returns a bias in float32 or float64, with `MASKED_SCORE` for the infinities of float16."""
    is_half = keras.backend.standardize_dtype(bias.dtype) == "float16"
    bias = ops.cast(bias, wide_dtype(bias))
    return ops.maximum(bias, MASKED_SCORE) if is_half else bias


def matmul_groups(rows: Tensor, columns: Tensor) -> Tensor:
    """Matrix product of each head with the matrix of its group, which is not repeated.

    Args:
        rows: `(batch, heads, target, inner)`.
        columns: `(batch, groups, inner, outer)`; `groups` divides `heads`.

    Returns:
        `(batch, heads, target, outer)`.
    """
    products = ops.matmul(_grouped(rows, columns.shape[1]), columns)
    return _ungrouped(products, rows.shape[1], ops.shape(rows)[2])  # (B, H, T, outer)


def _grouped(rows, groups):
    """`(batch, heads, target, inner)` to `(batch, groups, heads / groups * target, inner)`."""
    batch, _, target, inner = ops.shape(rows)
    heads = rows.shape[1]
    if heads == groups:
        return rows
    return ops.reshape(rows, (batch, groups, heads // groups * target, inner))


def _ungrouped(products, heads, target):
    """`(batch, groups, heads / groups * target, outer)` to `(batch, heads, target, outer)`."""
    if products.shape[1] == heads:
        return products
    batch, _, _, outer = ops.shape(products)
    return ops.reshape(products, (batch, heads, target, outer))


def softmax_over_keys(scores: Tensor) -> Tensor:
    """Softmax over the last axis, computed in float32, or in float64 for scores of that dtype."""
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)  # Keras warns of a softmax over an axis of size one.
    return ops.cast(ops.softmax(ops.cast(scores, wide_dtype(scores)), axis=-1), scores.dtype)
