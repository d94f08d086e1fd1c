"""Reference implementation of Transformers in NumPy, written from the equations of the papers.

It computes one sentence, one head and one pair of positions at a time, in float64. Weights are
nested dicts with the names of the layers, see `weights_of`; the first axis of a matrix is its
input.
"""

import math

import numpy as np
from keras import ops

from tests.oracles import attend, sigmoid


def weights_of(layer):
    """The weights of a layer by name, those of its inner layers by the name of the layer."""
    nested = {}
    for weight in layer.trainable_weights:
        *owners, name = weight.path.split("/")[1:]
        level = nested
        for owner in owners:
            level = level.setdefault(owner, {})
        level[name] = ops.convert_to_numpy(weight).astype("float64")
    return nested


def multi_head_attention(
    query,
    weights,
    num_heads,
    value=None,
    key=None,
    num_groups=None,
    mask=True,
    bias=0.0,
    rotate=None,
):
    """Vaswani et al. 2017, section 3.2.2; groups: Ainslie et al. 2023; gate: Qiu et al. 2025.

    Args:
        query, value, key: (T, features) and (S, features); by default those of the query.
        num_groups: heads of keys and values, each for num_heads / num_groups query heads in a row.
        mask, bias: broadcastable to (H, T, S).
        rotate: function of a vector (d,) and its position.

    Returns:
        Outputs (T, E) and weights (H, T, S).
    """
    value = query if value is None else value
    key = value if key is None else key
    num_groups = num_groups or num_heads
    queries = _heads(query, weights, "query", num_heads, rotate)
    keys = _heads(key, weights, "key", num_groups, rotate)
    values = _heads(value, weights, "value", num_groups)
    shape = (num_heads, len(query), len(key))
    mask, bias = np.broadcast_to(mask, shape), np.broadcast_to(bias, shape)
    contexts, found = [], []
    for head in range(num_heads):
        group = head // (num_heads // num_groups)
        products = np.array([[q @ k for k in keys[group]] for q in queries[head]])
        scores = products / math.sqrt(queries[head].shape[1]) + bias[head]
        context, attended = attend(scores, values[group], mask[head])
        contexts.append(context)
        found.append(attended)
    heads = np.concatenate(contexts, axis=1)
    if "gate_kernel" in weights:
        heads = heads * sigmoid(_project(query, weights, "gate"))
    return _project(heads, weights, "output"), np.array(found)


def _project(x, weights, name):
    return x @ weights[f"{name}_kernel"] + weights.get(f"{name}_bias", 0.0)


def _heads(x, weights, name, num_heads, rotate=None):
    heads = np.split(_project(x, weights, name), num_heads, axis=1)
    if rotate is None:
        return heads
    return [
        np.array([rotate(vector, position) for position, vector in enumerate(head)])
        for head in heads
    ]


def norm(x, weights, epsilon=1e-5):
    """Layer norm, Ba et al. 2016, equation 4; without a beta RMS norm, Zhang and Sennrich 2019."""
    normalized = []
    for vector in x:
        if "beta" in weights:
            vector = vector - vector.mean()
        normalized.append(vector / math.sqrt((vector**2).mean() + epsilon))
    if "beta" in weights:
        return np.array(normalized) * weights["gamma"] + weights["beta"]
    return np.array(normalized) * weights["scale"]


def relu(x):
    return np.maximum(x, 0.0)


def gelu(x):
    """Hendrycks and Gimpel 2016: x P(X <= x)."""
    return x * np.vectorize(lambda each: 0.5 * (1.0 + math.erf(each / math.sqrt(2.0))))(x)


def gelu_tanh(x):
    """Hendrycks and Gimpel 2016, section 2: the approximation with tanh."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def feed_forward(x, weights, activation):
    """Vaswani et al. 2017, equation 2; gated: Shazeer 2020, equation 6, the gate in front."""

    def dense(inputs, layer):
        return inputs @ weights[layer]["kernel"] + weights[layer].get("bias", 0.0)

    hidden = dense(x, "expansion")
    functions = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}
    gates = {"swiglu": lambda gate: gate * sigmoid(gate), "geglu": gelu_tanh, "reglu": relu}
    if activation in gates:
        gate, hidden = np.split(hidden, 2, axis=1)
        hidden = gates[activation](gate) * hidden
    else:
        hidden = functions[activation](hidden)
    return dense(hidden, "contraction")


def encoder_block(x, weights, num_heads, activation="relu", normalize_first=True, **attention):
    """Vaswani et al. 2017, section 3.1: norm(x + f(x)); Wang et al. 2019: x + f(norm(x)).

    Args:
        **attention: `num_groups`, `mask`, `bias` and `rotate` of `multi_head_attention`.
    """
    own = weights["self_attention"]
    x = _residual(
        x,
        weights["attention_norm"],
        lambda y: multi_head_attention(y, own, num_heads, **attention)[0],
        normalize_first,
    )
    return _last_part(x, weights, activation, normalize_first)


def decoder_block(
    x,
    memory,
    weights,
    num_heads,
    activation="relu",
    normalize_first=True,
    memory_mask=True,
    mask=True,
    **attention,
):
    """Vaswani et al. 2017, section 3.1; without a memory, `None`, of a language model.

    Args:
        memory: (S, features); memory_mask: (S,).
        mask, **attention: as of `encoder_block`; no position sees a later one in any case.
    """
    own, cross = weights["self_attention"], weights.get("cross_attention_layer")
    causal = np.tril(np.ones((len(x), len(x)), bool))
    x = _residual(
        x,
        weights["attention_norm"],
        lambda y: multi_head_attention(y, own, num_heads, mask=mask & causal, **attention)[0],
        normalize_first,
    )
    if memory is not None:
        x = _residual(
            x,
            weights["memory_norm"],
            lambda y: multi_head_attention(y, cross, num_heads, memory, mask=memory_mask)[0],
            normalize_first,
        )
    return _last_part(x, weights, activation, normalize_first)


def _last_part(x, weights, activation, normalize_first):
    return _residual(
        x,
        weights["feed_forward_norm"],
        lambda y: feed_forward(y, weights["feed_forward"], activation),
        normalize_first,
    )


def _residual(x, norm_weights, sublayer, normalize_first):
    if normalize_first:
        return x + sublayer(norm(x, norm_weights))
    return norm(x + sublayer(x), norm_weights)
