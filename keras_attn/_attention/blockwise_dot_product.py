"""Scaled dot-product attention with memory linear in the sequence length."""

import functools
from collections.abc import Callable

from keras import ops

from keras_attn._attention.position_bias import finite_bias
from keras_attn._attention.scaled_dot_product import matmul_groups, scaled_dot_product
from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._backend.dynamic_shapes import is_symbol
from keras_attn._backend.gather import gather_rows
from keras_attn._backend.integers import slice_starts
from keras_attn._backend.sequential_loops import (
    add_same_shape,
    at_least_one,
    map_sequentially,
    scan_sequentially,
)
from keras_attn._masks import both, position_mask, wide_dtype
from keras_attn._types import Mask, Tensor


def blockwise_dot_product(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Mask | None = None,
    causal: bool = False,
    sliding_window: int | None = None,
    bias: Callable[..., Tensor] | None = None,
    start_index: int | Tensor = 0,
    block_size: int = 512,
) -> Tensor:
    """Computes the context of `scaled_dot_product` without storing all attention weights.

    The function processes the queries in blocks. Each block attends to all keys. The weights are
    not stored; the backward pass computes the weights of each block again. The memory for each head
    is therefore proportional to `block_size * source` instead of `target * source`, in inference
    and in training. The backward pass computes the gradients below. `Q`, `S`, `W` and `O` are the
    queries, scores, weights and context of a block. `K` and `V` are all keys and values. `dX` is
    the gradient of the loss with respect to `X`, and `∘` is the elementwise product:

        dV += Wᵀ dO,  dW = dO Vᵀ,  dS = W ∘ (dW - rowsum(W ∘ dW)),  dQ = dS K,  dK += dSᵀ Q

    The method was introduced by [Rabe and Staats, 2021](https://arxiv.org/abs/2112.05682).
    FlashAttention has the same backward pass ([Dao et al., 2022](https://arxiv.org/abs/2205.14135),
    appendix B.2).

    Args:
        query: Float tensor of shape `(batch, heads, target, head_dim)`, already scaled.
        keys: Float tensor of shape `(batch, groups, source, head_dim)`, where `groups` divides
            `heads`.
        values: Float tensor of shape `(batch, groups, source, value_dim)`.
        mask: Boolean tensor of shape `(batch or 1, heads or 1, 1, source)`; `True` marks keys that
            may be attended to. Defaults to `None`: no masked keys.
        causal: Bool, whether a query may attend only to keys at its own and earlier positions.
            Defaults to `False`.
        sliding_window: Positive int. A query at position t may only attend to keys at positions s
            with `|t - s| < sliding_window`. Defaults to `None`: no limit.
        bias: Function of `query_positions` int32 `(1, t)` and `key_positions` int32 `(1, s)`. It
            returns floats `(1, heads or 1, t, s)`, which are added to the scores. The bias must
            only depend on the difference of the two positions, as in ALiBi and T5, because the
            function is called once for all differences. If the function is a layer with weights,
            its weights are trained. Defaults to `None`.
        start_index: Int or scalar int32 tensor, position of the first query. The first key is at
            position 0. Defaults to `0`.
        block_size: Positive int, maximum number of queries in a block. Defaults to `512`.

    Returns:
        Context of shape `(batch, heads, target, value_dim)`, with the dtype of `query`.

    Masking:
        Masked keys get a weight of exactly 0. If all keys are masked for a query, its context is 0.

    Example:

    >>> import numpy as np
    >>> query = keys = np.zeros((1, 1, 4, 2), "float32")
    >>> values = np.array([[[[1.0], [3.0], [5.0], [7.0]]]], "float32")
    >>> context = blockwise_dot_product(query, keys, values, causal=True, block_size=2)
    >>> np.array(context)[0, 0, :, 0].tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    query, keys, values = (ops.convert_to_tensor(x) for x in (query, keys, values))
    heads, target, source = query.shape[1], ops.shape(query)[2], ops.shape(keys)[2]
    if is_symbol(target):  # shape inference on JAX
        num_blocks, size = 1, target
    else:
        num_blocks = at_least_one((target + block_size - 1) // block_size)
        # Blocks of equal size need the least padding.
        size = at_least_one((target + num_blocks - 1) // num_blocks)

    distance_bias = None
    if bias is not None:
        # Column c is the bias for keys that are c - (num_blocks * size - 1) positions after the
        # query.
        last_query = ops.reshape(start_index + num_blocks * size - 1, (1, 1))
        key_positions = ops.arange(num_blocks * size + source, dtype="int32")[None, :]
        distance_bias = bias(last_query, key_positions)  # (1, H or 1, 1, N*t+S)
        shape = (1, heads, 1, num_blocks * size + source)
        distance_bias = ops.broadcast_to(distance_bias, shape)
    limits = {"causal": causal, "sliding_window": sliding_window}
    attend = custom_gradient(
        functools.partial(_contexts, **limits), functools.partial(_gradients, **limits)
    )
    context, _ = attend(
        blocks=split(query, num_blocks, size),
        keys=keys,
        values=values,
        distance_bias=distance_bias,
        mask=mask,
        start_index=ops.cast(start_index, "int32"),
    )  # (N, B, H, t, dv)
    context = ops.transpose(context, (1, 2, 0, 3, 4))  # (B, H, N, t, dv)
    shape = (ops.shape(query)[0], heads, num_blocks * size, values.shape[3])
    return ops.reshape(context, shape)[:, :, :target]  # (B, H, T, dv)


def _contexts(blocks, keys, values, distance_bias, **positions):
    """Returns the contexts `(N, B, H, t, dv)` of all blocks."""

    def attend(numbered):
        number, block = numbered
        return _weigh(number, block, blocks, keys, values, distance_bias, **positions)[0]

    numbers = ops.arange(ops.shape(blocks)[0], dtype="int32")
    return map_sequentially(attend, (numbers, blocks)), ()


def _gradients(_, upstream, blocks, keys, values, distance_bias, **positions):
    """Returns the gradients of the arguments of `_contexts`."""
    num_blocks, _, heads, size, _ = ops.shape(blocks)
    source = ops.shape(keys)[2]
    shared = {"keys": keys, "values": values, "distance_bias": distance_bias}
    shared = {name: tensor for name, tensor in shared.items() if tensor is not None}

    def add_block(carry, step):
        number, block, context_gradient = step  # (), (B, H, t, d), (B, H, t, dv)
        _, weights = _weigh(number, block, blocks, keys, values, distance_bias, **positions)
        query_gradient, score_gradient, *addends = block_gradients(
            context_gradient, weights, block, keys, values
        )
        if distance_bias is not None:
            columns = unskew(score_gradient, heads, size, source)  # (1, H, 1, S+t)
            first = _first_column(number, num_blocks, size)
            addends.append(shift(columns, first, num_blocks * size + source))
        sums = {
            name: add_same_shape(carry[name], addend)
            for name, addend in zip(shared, addends, strict=True)
        }
        return {"blocks": ops.reshape(query_gradient, ops.shape(block)), **sums}

    start = {
        name: ops.zeros(ops.shape(tensor), wide_dtype(tensor)) for name, tensor in shared.items()
    }
    numbers = ops.arange(num_blocks, dtype="int32")
    sums, of_blocks = scan_sequentially(
        add_block,
        {"blocks": ops.zeros_like(blocks[0]), **start},
        (numbers, blocks, upstream),
        lambda carry: carry["blocks"],
    )
    of_shared = {name: ops.cast(sums[name], tensor.dtype) for name, tensor in shared.items()}
    return {"blocks": of_blocks, **of_shared}


def _weigh(
    number,
    block,
    blocks,
    keys,
    values,
    distance_bias,
    mask,
    start_index,
    causal,
    sliding_window,
):
    """Returns the context `(B, H, t, dv)` and the weights `(B, H, t, S)` of a block."""
    num_blocks, _, heads, size, _ = ops.shape(blocks)
    source = ops.shape(keys)[2]
    query_positions = start_index + number * size + ops.arange(size, dtype="int32")[None, :]
    key_positions = ops.arange(source, dtype="int32")[None, :]
    allowed = position_mask(query_positions, key_positions, causal, sliding_window)
    allowed = both(mask, allowed)  # (B or 1, H or 1, t, S)
    block_bias = None
    if distance_bias is not None:
        start = slice_starts(0, 0, 0, _first_column(number, num_blocks, size))
        columns = ops.slice(distance_bias, start, (1, heads, 1, source + size))
        block_bias = skew(columns, heads, size, source)  # (1, H, t, S)
    block_bias, has_weight = finite_bias(block_bias)
    return scaled_dot_product(block, keys, values, both(allowed, has_weight), block_bias)


def _first_column(number, num_blocks, size):
    """Returns the first column of the distance bias for a block."""
    return (num_blocks - 1 - number) * size


def split(query: Tensor, num_blocks: int | Tensor, size: int | Tensor) -> Tensor:
    """Splits queries `(B, H, T, d)` into blocks `(num_blocks, B, H, size, d)`."""
    heads, target, head_dim = query.shape[1], ops.shape(query)[2], query.shape[3]
    query = ops.pad(query, ((0, 0), (0, 0), (0, num_blocks * size - target), (0, 0)))
    query = ops.reshape(query, (-1, heads, num_blocks, size, head_dim))  # (B, H, N, t, d)
    return ops.transpose(query, (2, 0, 1, 3, 4))  # (N, B, H, t, d)


def block_gradients(
    context_gradient: Tensor, weights: Tensor, query: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, ...]:
    """Returns the gradients with respect to the query, the scores, the keys and the values."""
    groups = keys.shape[1]
    weight_gradient = matmul_groups(context_gradient, ops.transpose(values, (0, 1, 3, 2)))
    wide = ops.cast(weights, wide_dtype(weights))
    products = wide * ops.cast(weight_gradient, wide.dtype)  # (B, H, T, S)
    score_gradient = products - wide * ops.sum(products, axis=-1, keepdims=True)
    score_gradient = ops.cast(score_gradient, query.dtype)  # (B, H, T, S)
    return (
        matmul_groups(score_gradient, keys),  # (B, H, T, d)
        score_gradient,
        sum_over_queries(score_gradient, query, groups),  # (B, G, S, d)
        sum_over_queries(weights, context_gradient, groups),  # (B, G, S, dv)
    )


def sum_over_queries(weights: Tensor, vectors: Tensor, groups: int) -> Tensor:
    """Computes a weighted sum of vectors for each key, over all queries and heads of a group.

    Args:
        weights: Tensor of shape `(batch, heads, target, source)`.
        vectors: Tensor of shape `(batch, heads, target, dim)`.
        groups: Int, number of groups, a divisor of `heads`.

    Returns:
        Tensor of shape `(batch, groups, source, dim)`.
    """
    rows = weights.shape[1] // groups * ops.shape(weights)[2]
    weights = ops.reshape(weights, (-1, groups, rows, ops.shape(weights)[3]))  # (B, G, H/G*T, S)
    vectors = ops.reshape(vectors, (-1, groups, rows, vectors.shape[3]))  # (B, G, H/G*T, dim)
    return ops.matmul(ops.transpose(weights, (0, 1, 3, 2)), vectors)  # (B, G, S, dim)


def skew(columns: Tensor, heads: int, size: int | Tensor, source: int | Tensor) -> Tensor:
    """Expands a bias per distance to a bias per pair of positions.

    The element `[i, j]` of the result is `columns[size - 1 - i + j]`, so each row is the previous
    row shifted to the right by one. The function drops the last `size` elements of `size` copies of
    `columns`, and reshapes the rest to rows that are one element shorter
    ([Huang et al., 2018](https://arxiv.org/abs/1809.04281), section 3.4.1).

    Args:
        columns: Tensor of shape `(1, heads, 1, source + size)`. Column `size - 1` is the bias of
            the first query and the first key.
        heads: Int, number of heads.
        size: Int, number of queries.
        source: Int, number of keys.

    Returns:
        Tensor of shape `(1, heads, size, source)`.
    """
    length = source + size
    rows = ops.broadcast_to(columns, (1, heads, size, length))
    rows = ops.reshape(rows, (1, heads, length, size))
    # JAX, for unknown sizes: whether length - 1 is negative is known, size * (length - 1) is not.
    rows = ops.reshape(rows[:, :, : length - 1], (1, heads, size, length - 1))
    return rows[:, :, :, size - 1 :]  # (1, H, t, S)


def unskew(gradient: Tensor, heads: int, size: int | Tensor, source: int | Tensor) -> Tensor:
    """Gradient of `skew`: sums `(batch, heads, size, source)` to `(1, heads, 1, source + size)`."""
    length = source + size
    rows = ops.cast(gradient, wide_dtype(gradient))
    rows = ops.sum(rows, axis=0, keepdims=True)  # (1, H, t, S)
    rows = ops.pad(rows, ((0, 0), (0, 0), (0, 0), (size - 1, 0)))  # (1, H, t, S+t-1)
    rows = ops.reshape(rows, (1, heads, length - 1, size))
    rows = ops.pad(rows, ((0, 0), (0, 0), (0, 1), (0, 0)))
    rows = ops.reshape(rows, (1, heads, size, length))
    return ops.sum(rows, axis=2, keepdims=True)  # (1, H, 1, S+t)


def shift(columns: Tensor, first: Tensor, width: int | Tensor) -> Tensor:
    """Moves columns to the right, and fills the other columns with zeros.

    On TensorFlow, `ops.slice_update` has no gradient, and XLA needs the padding of `ops.pad` as a
    constant.

    Args:
        columns: Tensor of shape `(..., n)`.
        first: Scalar int32 tensor, place of the first column in the result, at most `width - n`.
        width: Int, number of columns of the result.

    Returns:
        Tensor of shape `(..., width)`.
    """
    missing = width - ops.shape(columns)[-1]
    padded = ops.pad(columns, ((0, 0),) * (len(columns.shape) - 1) + ((0, missing),))
    places = ops.mod(ops.arange(width, dtype="int32") - first, width)
    return gather_rows(padded, places, axis=len(columns.shape) - 1)
