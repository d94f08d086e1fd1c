from keras import ops

from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._backend.float64 import tanh
from keras_attn._backend.sequential_loops import (
    add_same_shape,
    at_least_one,
    map_sequentially,
    scan_sequentially,
)
from keras_attn._masks import wide_dtype
from keras_attn._types import Tensor


def additive_score(
    query: Tensor,
    keys: Tensor,
    vector: Tensor,
    bias: Tensor | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Additive score of projected queries and keys.

        e_ts = v . tanh(q_t + k_s + b)

    Without `chunk_size`, the tanh has `batch * target * source * units` values, and training stores
    these values for the backward pass. With `chunk_size`, memory only holds the tanh of
    `chunk_size` keys at a time, and the backward pass computes each chunk's tanh again. Let h_ts =
    tanh(q_t + k_s + b), and let g_ts be the gradient of the loss with respect to e_ts. The
    gradients are:

        z_ts = g_ts v (1 - h_ts^2)
        dq_t = sum_s z_ts,  dk_s = sum_t z_ts,  dv = sum_ts g_ts h_ts

    Args:
        query: Tensor of shape `(batch, target, units)`.
        keys: Tensor of shape `(batch, source, units)`.
        vector: Tensor of shape `(units,)`, the vector v.
        bias: Tensor of shape `(units,)`, the vector b. Defaults to `None`: no bias.
        chunk_size: Positive int, maximum number of keys per chunk. Defaults to `None`: all keys at
            once.

    Returns:
        Scores of shape `(batch, target, source)`.
    """
    if bias is not None:
        query = query + bias
    if chunk_size is None:
        return ops.squeeze(ops.matmul(_hidden(query, keys), vector[:, None]), axis=-1)  # (B, T, S)
    target, source = ops.shape(query)[1], ops.shape(keys)[1]
    num_chunks = at_least_one((source + chunk_size - 1) // chunk_size)
    # Chunks of equal size need the least padding.
    size = at_least_one((source + num_chunks - 1) // num_chunks)
    chunks = ops.pad(keys, ((0, 0), (0, num_chunks * size - source), (0, 0)))
    chunks = ops.reshape(chunks, (-1, num_chunks, size, keys.shape[2]))  # (B, N, s, U)
    chunks = ops.transpose(chunks, (1, 0, 2, 3))  # (N, B, s, U)
    scores, _ = _chunked(query=query, chunks=chunks, vector=vector)  # (N, B, T, s)
    scores = ops.transpose(scores, (1, 2, 0, 3))  # (B, T, N, s)
    return ops.reshape(scores, (-1, target, num_chunks * size))[:, :, :source]  # (B, T, S)


def _hidden(query, keys):
    return tanh(ops.expand_dims(query, 2) + ops.expand_dims(keys, 1))  # (B, T, S, U)


def _chunked_scores(query, chunks, vector):
    """Returns scores `(N, B, T, s)` of queries `(B, T, U)` and N chunks of keys `(N, B, s, U)`."""
    return map_sequentially(lambda keys: additive_score(query, keys, vector), chunks), ()


def _chunked_gradients(_, upstream, query, chunks, vector):
    def add_chunk(carry, step):
        keys, of_scores = step[0], step[1][..., None]  # (B, s, U), (B, T, s, 1)
        hidden = _hidden(query, keys)  # (B, T, s, U)
        of_vector = ops.sum(of_scores * hidden, axis=(0, 1, 2))  # (U,)
        inner = of_scores * vector * (1.0 - ops.square(hidden))  # (B, T, s, U)
        return {
            "query": add_same_shape(carry["query"], ops.sum(inner, axis=2)),  # (B, T, U)
            "keys": ops.reshape(ops.sum(inner, axis=1), ops.shape(keys)),  # (B, s, U)
            "vector": add_same_shape(carry["vector"], of_vector),
        }

    start = {
        "query": ops.zeros(ops.shape(query), wide_dtype(query)),
        "keys": ops.zeros_like(chunks[0]),
        "vector": ops.zeros(ops.shape(vector), wide_dtype(vector)),
    }
    sums, of_chunks = scan_sequentially(
        add_chunk, start, (chunks, upstream), lambda carry: carry["keys"]
    )
    return {
        "query": ops.cast(sums["query"], query.dtype),
        "chunks": of_chunks,
        "vector": ops.cast(sums["vector"], vector.dtype),
    }


_chunked = custom_gradient(_chunked_scores, _chunked_gradients)
