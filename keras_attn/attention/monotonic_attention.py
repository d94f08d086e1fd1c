import keras
from keras import ops

from keras_attn._backend.scan import scan
from keras_attn._layer.argument_checks import check_compute_dtype
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.attention.attention_mechanism import AttentionMechanism
from keras_attn.attention.feedback_attention import FeedbackAttention
from keras_attn.attention.local_attention import LocalAttention
from keras_attn.masks import wide_dtype

MODES = ("parallel", "recursive", "hard")
LEAST_PROBABILITY = 1e-10
"""Of moving past a position: the parallel form divides by it."""


@keras.saving.register_keras_serializable(package="keras_attn")
class MonotonicAttention(FeedbackAttention):
    """Attention that only moves forward, with the scores of another mechanism.

    From where the step before has looked, each position is taken with a probability of its own, or
    passed:

        p_ts = sigmoid(e_ts + r + noise)
        a_ts = p_ts sum_{j <= s} a_{t-1,j} prod_{j <= l < s} (1 - p_tl)

    Introduced by [Raffel et al., 2017](https://arxiv.org/abs/1704.00784): equation 9, computed by
    equations 13 and 14 (`"recursive"`), appendix C.1 (`"parallel"`) or algorithm 1 (`"hard"`).
    Weights of a query sum to at most 1: what is missing is the probability that nothing was chosen.
    Before the first step all weight is on the first position.

    Args:
        mechanism: an `AttentionMechanism`, whose scores are taken.
        mode: how weights are computed. `"parallel"` (default): by cumulative sums, which is fast
            but not exact where probabilities come close to 1, and right only as far along the
            source as the probability to pass all positions before stays above 1e-10: over 33 where
            each has probability 0.5 to be chosen; `"recursive"`: by a loop over the source, exact;
            `"hard"`: the first position from the last one on with e_ts + r > 0, all or nothing, for
            inference in linear time. That has no gradient: train with another, with noise, and set
            the attribute of this name before the model is used or exported.
        sigmoid_noise: float, standard deviation of Gaussian noise on the scores, in training only,
            which drives the probabilities to 0 and 1. Default 0.
        score_bias: float, the first value of the learned number r. Default 0; negative values, such
            as -1 to -4, let the attention start with moving on.
        seed: int, of the noise. Default `None`.
        **kwargs: arguments of `AttentionMechanism`; `probability_fn` stays "softmax" and does
            nothing.

    Call arguments, returns: see `FeedbackAttention`.

    Masking: masked positions are passed with weight 0.

    Raises:
        ValueError: if `mode` is unknown, `sigmoid_noise` is negative, `mechanism` is none that
            scores single positions on its own, or `probability_fn` is not `"softmax"`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BahdanauAttention
    >>> layer = MonotonicAttention(BahdanauAttention(8), mode="hard")
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(
        self, mechanism, mode="parallel", sigmoid_noise=0.0, score_bias=0.0, seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        if self.probability_fn != "softmax":
            raise ValueError(
                "The weights of monotonic attention are not made by a probability_fn; choose a "
                f"mode. Received: probability_fn={self.probability_fn!r}."
            )
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}. Received: mode={mode!r}.")
        if not isinstance(mechanism, AttentionMechanism) or isinstance(
            mechanism, (FeedbackAttention, LocalAttention)
        ):
            raise ValueError(
                "mechanism must be an AttentionMechanism that scores each position on its own, "
                f"such as BahdanauAttention(256). Received: mechanism={mechanism}."
            )
        if sigmoid_noise < 0:
            raise ValueError(
                f"sigmoid_noise must not be negative. Received: sigmoid_noise={sigmoid_noise}."
            )
        check_compute_dtype(self, mechanism=mechanism)
        self.mechanism = mechanism
        self.mode = mode
        self.sigmoid_noise = sigmoid_noise
        self.score_bias = score_bias
        self.seed = seed
        self.noise = _NoiseOfSteps(sigmoid_noise, seed)

    def build(self, query_shape, value_shape, key_shape=None):
        ensure_built(self.mechanism, query_shape, value_shape, key_shape)
        super().build(query_shape, value_shape, key_shape)

    def build_weights(self, query_dim, key_dim):
        initializer = keras.initializers.Constant(self.score_bias)
        self.bias = self.add_weight(name="bias", shape=(), initializer=initializer)

    def prepare_memory(self, value, key=None, attention_mask=None):
        return self.mechanism.prepare_memory(value, key, attention_mask)

    def initial_state(self, memory, rows, max_steps=None):
        source = ops.shape(memory["values"])[1]
        dtype = wide_dtype(memory["values"])
        first = ops.cast(ops.equal(ops.arange(source, dtype="int32"), 0), dtype)  # (S,)
        alignments = ops.broadcast_to(first, (rows, source))
        noise = {} if max_steps is None else self.noise(alignments, num_steps=max_steps)
        return {"alignments": alignments, **noise}

    def attend_once(self, query, memory, state):
        scores = self.mechanism.compute_scores(query, memory["keys"])  # (B, K, S)
        dtype = wide_dtype(scores)
        scores = ops.cast(scores, dtype) + ops.cast(self.bias, dtype)
        new_state = {}
        if "noise" in state:
            noise, step = ops.stop_gradient(state["noise"]), state["step"]
            step = ops.broadcast_to(step[..., None], (*ops.shape(step), ops.shape(noise)[3]))
            scores = scores + ops.cast(ops.take_along_axis(noise, step, axis=2)[:, :, 0], dtype)
            new_state = {"noise": noise, "step": state["step"] + 1}
        allowed = ops.cast(memory["mask"], dtype)  # (B, 1, S)
        if self.mode == "hard":
            chosen = allowed * ops.cast(scores > 0, dtype)
            weights = _first_chosen(chosen, state["alignments"])
        else:
            chosen = allowed * ops.sigmoid(scores)
            expected = _expected_recursive if self.mode == "recursive" else _expected_parallel
            weights = expected(chosen, state["alignments"])
        return ops.cast(weights, self.compute_dtype), {"alignments": weights, **new_state}

    def get_config(self):
        return {
            **super().get_config(),
            "mechanism": serialize_shared(self.mechanism),
            "mode": self.mode,
            "sigmoid_noise": self.sigmoid_noise,
            "score_bias": self.score_bias,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        mechanism = deserialize_shared(config["mechanism"])
        return cls(**{**config, "mechanism": mechanism})


class _NoiseOfSteps(keras.layers.Layer):
    """Gaussian noise for all steps, while training; drawn at once, because not every backend can
    draw inside of a loop."""

    def __init__(self, stddev, seed):
        super().__init__(dtype="float32", name="noise_of_steps")
        self.stddev = stddev
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, alignments, num_steps, training=False):
        if not (training and self.stddev):
            return {}
        rows, source = ops.shape(alignments)
        shape = (rows, num_steps, source)
        noise = keras.random.normal(
            shape, stddev=self.stddev, dtype="float32", seed=self.seed_generator
        )
        return {"noise": noise, "step": ops.zeros((rows, 1), dtype="int32")}


def _expected_parallel(chosen, before):
    """Appendix C.1: a = p c cumsum(a' / c), c the probability to pass all that come before."""
    log_passed = ops.log(ops.clip(1.0 - chosen, LEAST_PROBABILITY, 1.0))  # (B, K, S)
    passed = ops.exp(ops.cumsum(log_passed, axis=-1) - log_passed)
    reached = ops.cumsum(before / ops.clip(passed, LEAST_PROBABILITY, 1.0), axis=-1)
    return chosen * passed * reached


def _expected_recursive(chosen, before):
    """Equations 13 and 14: q_s = (1 - p_{s-1}) q_{s-1} + a'_s, a_s = p_s q_s."""

    def step(carry, inputs):
        chosen, before = inputs
        reached = carry["left"] + before  # (B, K)
        weights = chosen * reached
        return {"left": reached - weights, "weights": weights}

    along_source = tuple(ops.transpose(each, (2, 0, 1)) for each in (chosen, before))  # (S, B, K)
    zeros = ops.zeros(ops.shape(chosen)[:-1], dtype=chosen.dtype)  # (B, K)
    _, weights = scan(
        step, {"left": zeros, "weights": zeros}, along_source, lambda carry: carry["weights"]
    )
    return ops.transpose(weights, (1, 2, 0))  # (B, K, S)


def _first_chosen(chosen, before):
    """Algorithm 1: all on the first chosen position that is not before the last one."""
    chosen = chosen * ops.cumsum(before, axis=-1)  # (B, K, S), 0 or 1 each
    is_first = ops.cast(ops.cumsum(chosen, axis=-1) < 1.5, chosen.dtype)
    return ops.stop_gradient(chosen * is_first)
