"""Reference implementations in NumPy, written from the equations of the papers.

They compute one sentence and one position at a time, in float64, so that shapes, masks and batches
cannot hide a mistake. Matrices are stored as in Keras, input size first: "W x" of a paper is `x @
W`.
"""

import numpy as np

from keras_attn.testing._search_oracles import log_softmax


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def crossentropy(labels, logits, label_smoothing):
    """By a full target distribution, in float64: losses `(...)` and their gradient `(..., V)`."""
    num_classes = logits.shape[-1]
    log_probs = log_softmax(logits.astype("float64"))
    target = np.full(logits.shape, label_smoothing / (num_classes - 1))
    np.put_along_axis(target, labels[..., None], 1 - label_smoothing, axis=-1)
    return -(target * log_probs).sum(-1), np.exp(log_probs) - target


# Attention scores: queries (T, ...) and keys (S, ...) of one sentence to (T, S).


def bahdanau_scores(queries, keys, query_kernel, key_kernel, vector, gain=None, bias=0.0):
    """v . tanh(W_q q + W_k k); with a gain, Salimans and Kingma's g v / |v| and the bias b."""
    if gain is not None:
        vector = gain * vector / np.linalg.norm(vector)
    return _pairwise(
        lambda q, k: vector @ np.tanh(q @ query_kernel + k @ key_kernel + bias), queries, keys
    )


def luong_dot_scores(queries, keys):
    return _pairwise(lambda q, k: q @ k, queries, keys)


def luong_general_scores(queries, keys, kernel):
    """q . W k, with `kernel` the transpose of W."""
    return _pairwise(lambda q, k: q @ (k @ kernel), queries, keys)


def luong_concat_scores(queries, keys, kernel, vector):
    """v . tanh(W [q ; k])."""
    return _pairwise(lambda q, k: vector @ np.tanh(np.concatenate([q, k]) @ kernel), queries, keys)


def scaled_dot_scores(queries, keys):
    return _pairwise(lambda q, k: q @ k / np.sqrt(len(q)), queries, keys)


def cosine_scores(queries, keys, sharpness):
    """Graves et al. 2014, equations 5 and 6."""
    return _pairwise(
        lambda q, k: sharpness * (q @ k) / (np.linalg.norm(q) * np.linalg.norm(k)), queries, keys
    )


def linear_scores(queries, keys, kernel, bias):
    """A fully connected layer of [q ; k] with one unit."""
    return _pairwise(lambda q, k: np.concatenate([q, k]) @ kernel + bias, queries, keys)


def location_scores(queries, keys, kernel):
    """Luong et al. 2015, equation 8: W q, of which a short sentence uses the top."""
    return np.array([(q @ kernel)[: len(keys)] for q in queries])


def _pairwise(score, queries, keys):
    return np.array([[score(q, k) for k in keys] for q in queries])


def softmax(scores):
    return np.exp(log_softmax(scores))


def sparsemax(scores):
    """max(scores - tau, 0), with the tau for which they sum to 1 found by bisection."""
    scores = np.asarray(scores, "float64")
    low, high = scores.max() - 1.0, scores.max()
    for _ in range(100):
        tau = (low + high) / 2
        if np.maximum(scores - tau, 0).sum() > 1:
            low = tau
        else:
            high = tau
    return np.maximum(scores - tau, 0)


def hardmax(scores):
    return np.eye(len(scores))[np.argmax(scores)]


def attend(scores, values, mask=None, probabilities=softmax):
    """Contexts (T, D) and weights (T, S) of one sentence; `mask` is (S,) or (T, S)."""
    mask = np.broadcast_to(True if mask is None else mask, scores.shape)
    weights = np.zeros(scores.shape)
    for t, allowed in enumerate(mask):
        if allowed.any():
            weights[t, allowed] = probabilities(scores[t, allowed])
    return weights @ values, weights


# Cells: one step of one sentence, `step(x, state) -> output, new state`; a state is a list.


def rnn_step(x, state, kernel, recurrent_kernel, bias, output_kernel):
    """h_t = tanh(W_xh x_t + W_hh h_{t-1} + b), y_t = W_hy h_t."""
    hidden = np.tanh(x @ kernel + state[0] @ recurrent_kernel + bias)
    return hidden @ output_kernel, [hidden]


def simple_rnn_step(x, state, kernel, recurrent_kernel, bias):
    return rnn_step(x, state, kernel, recurrent_kernel, bias, np.eye(len(bias)))


def linear_rnn_step(x, state, kernel, recurrent_kernel):
    hidden = x @ kernel + state[0] @ recurrent_kernel
    return hidden, [hidden]


def lstm_step(x, state, kernel, recurrent_kernel, bias):
    """Hochreiter and Schmidhuber, 1997, with forget gates; gates: input, forget, cell, output."""
    hidden, cell = state
    i, f, g, o = np.split(x @ kernel + hidden @ recurrent_kernel + bias, 4)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    hidden = sigmoid(o) * np.tanh(cell)
    return hidden, [hidden, cell]


def gru_step(x, state, kernel, recurrent_kernel, bias):
    """Cho et al., 2014, in the form of cuDNN; gates lie as update, reset, candidate."""
    (hidden,) = state
    xz, xr, xh = np.split(x @ kernel + bias[0], 3)
    hz, hr, hh = np.split(hidden @ recurrent_kernel + bias[1], 3)
    update = sigmoid(xz + hz)
    candidate = np.tanh(xh + sigmoid(xr + hr) * hh)
    hidden = update * hidden + (1.0 - update) * candidate
    return hidden, [hidden]


def stacked_step(x, state, steps):
    new_state = []
    for step, own in zip(steps, state, strict=True):
        x, own = step(x, own)
        new_state.append(own)
    return x, new_state


def attention_rnn(
    inputs, state, step, top, attend, context_size, query, input_feeding, vector_layer=None
):
    """Luong et al., 2015, section 3, or Bahdanau et al., 2015, appendix A.2.2.

    Args:
        inputs: (T, D).
        state: state of the cell.
        step: `step(x, state) -> output, new state`.
        top: `top(state)`, the vector that Bahdanau's order asks with.
        attend: `attend(q) -> context, weights`.
        context_size: int.
        query: "cell_output" (Luong) or "previous_state" (Bahdanau).
        input_feeding: bool.
        vector_layer: `vector_layer([h ; c])`, the attention vector; `None` for none.

    Returns:
        Outputs (T, ...), weights (T, S) and the last state.
    """
    fed = np.zeros(context_size)
    if vector_layer is not None:
        fed = np.zeros_like(vector_layer(np.zeros(len(top(state)) + context_size)))
    outputs, all_weights = [], []
    for x in inputs:
        parts = [x]
        if query == "previous_state":
            context, weights = attend(top(state))
            parts.append(context)
        if input_feeding:
            parts.append(fed)
        hidden, state = step(np.concatenate(parts), state)
        if query == "cell_output":
            context, weights = attend(hidden)
        output, fed = np.concatenate([hidden, context]), context
        if vector_layer is not None:
            output = fed = vector_layer(output)
        outputs.append(output)
        all_weights.append(weights)
    return np.array(outputs), np.array(all_weights), state


def location_sensitive(
    queries, keys, values, mask, kernels, vector, bias, filters=None, cumulative=False
):
    """Chorowski et al., 2015, equations 8 and 9; See et al., 2017, equation 11 (no filters).

    Args:
        queries (T, Q), keys (S, K), values (S, D), mask (S,).
        kernels: of the query (Q, U), of the keys (K, U) and of the features (F, U).
        filters: (width, F), F of the convolution; `None`: the feature is the number itself.
        cumulative: whether the features are made of the sum of all weights before.
    """
    before = np.zeros(len(keys))
    contexts, all_weights = [], []
    for query in queries:
        features = before[:, None]
        if filters is not None:
            left = (len(filters) - 1) // 2
            padded = np.pad(before, (left, len(filters)))
            features = np.array([padded[s : s + len(filters)] @ filters for s in range(len(keys))])
        hidden = np.tanh(query @ kernels[0] + keys @ kernels[1] + features @ kernels[2] + bias)
        context, weights = attend((hidden @ vector)[None], values, mask)
        before = before * cumulative + weights[0]
        contexts.append(context[0])
        all_weights.append(weights[0])
    return np.array(contexts), np.array(all_weights)


def monotonic(scores, mask):
    """Raffel et al., 2017, equation 9: the sum over all that the step before can have chosen."""
    before = np.eye(len(mask))[0]
    all_weights = []
    for row in scores:
        p = sigmoid(row) * mask
        before = np.array(
            [
                sum(before[j] * np.prod(1 - p[j:s]) * p[s] for j in range(s + 1))
                for s in range(len(mask))
            ]
        )
        all_weights.append(before)
    return np.array(all_weights)


def monotonic_hard(scores, mask):
    """Raffel et al., 2017, algorithm 1."""
    weights, position = np.zeros(scores.shape), 0
    for t, row in enumerate(scores):
        chosen = [s for s in range(position, len(mask)) if mask[s] and row[s] > 0]
        if not chosen:
            break  # The end was reached: nothing is chosen any more.
        position = chosen[0]
        weights[t, position] = 1.0
    return weights
