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
    hidden = ops.tanh(query[:, :, None, :] + keys[:, None, :, :])  # (B, T, S, U)
    return ops.sum(hidden * vector, axis=-1)  # (B, T, S)
