from keras import ops


def additive_score(query, keys, vector, bias=None):
    """The additive score e_ts = v . tanh(q_t + k_s + b), of projected queries and keys.

    Args:
        query: `(batch, target, units)`.
        keys: `(batch, source, units)`.
        vector: `(units,)`, the vector v.
        bias: `(units,)` or `None`, the vector b.

    Returns:
        Scores `(batch, target, source)`.
    """
    if bias is not None:
        query = query + bias
    query, keys = ops.expand_dims(query, 2), ops.expand_dims(keys, 1)
    hidden = ops.tanh(query + keys)  # (B, T, S, U)
    return ops.squeeze(ops.matmul(hidden, vector[:, None]), axis=-1)  # (B, T, S)
