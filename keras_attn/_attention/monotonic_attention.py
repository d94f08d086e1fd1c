import math
from typing import Any, Self

import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.local_attention import LocalAttention
from keras_attn._attention.stateful_attention import StatefulAttention
from keras_attn._backend.scan import scan
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_nonnegative_number,
    check_number,
    check_seed,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._masks import wide_dtype
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict

MODES = ("parallel", "recursive", "hard")
LEAST_PROBABILITY = 1e-10
"""Lower bound of the probability of skipping positions, by which the parallel mode divides."""


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class MonotonicAttention(StatefulAttention):
    """Monotonic attention: the attended position only moves forward in the source.

    A step begins at the position that the previous step selected. At each position s, the step t
    selects the position with the probability p_ts, and otherwise continues with the next position.
    The scores e_ts are computed by another mechanism:

        p_ts = sigmoid(e_ts + r + noise)
        a_ts = p_ts sum_{j <= s} a_{t-1,j} prod_{j <= l < s} (1 - p_tl)

    The mechanism was introduced by [Raffel et al., 2017](https://arxiv.org/abs/1704.00784),
    equation 9. The modes implement equations 13 and 14 (`"recursive"`), appendix C.1 (`"parallel"`)
    and algorithm 1 (`"hard"`). The weights of a query sum to at most 1. The missing weight is the
    probability that no position is selected. The initial weights are 1 for the first position and 0
    for all others.

    Args:
        mechanism: `AttentionMechanism` that computes the scores. `StatefulAttention` and
            `LocalAttention` are not supported.
        mode: String, how the weights are computed. `"parallel"` uses cumulative sums. This mode is
            fast, but inexact for probabilities close to 1, and only correct while the probability
            of skipping all previous positions is above 1e-10 (for example, 33 positions with
            probability 0.5). `"recursive"` is an exact loop over the source. `"hard"` is for
            inference in linear time. This mode assigns a weight of 1 to the first position with
            e_ts + r > 0 at or after the previously selected position. It has no gradient: train
            with a different mode and with noise, then set the attribute `mode` before inference or
            export. Defaults to `"parallel"`.
        sigmoid_noise: Non-negative float, standard deviation of the Gaussian noise that is added to
            the scores during training. With noise, the model learns probabilities close to 0 and 1.
            Defaults to `0.0`.
        score_bias: Float, initial value of the trainable scalar r. With negative values, such as -1
            to -4, the attention skips more positions at the beginning of training. Defaults to
            `0.0`.
        seed: Int, seed of the noise. Defaults to `None`: a random seed.
        kernel_initializer: Ignored: the mechanism has no weight matrices. Defaults to
            `"glorot_uniform"`.
        probability_fn: Must be `"softmax"`, the default, because `mode` determines how the weights
            are computed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

    Masking:
        Masked positions are skipped and get a weight of exactly 0. If all positions are masked for
        a query, its weights and its context are 0. Query masks are ignored.

    Raises:
        ValueError: If `mode` is unknown, `sigmoid_noise` is negative, `mechanism` is not supported,
            or `probability_fn` is not `"softmax"`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BahdanauAttention, MonotonicAttention
    >>> layer = MonotonicAttention(BahdanauAttention(8), mode="hard")
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        mechanism: AttentionMechanism,
        mode: str = "parallel",
        *,
        sigmoid_noise: float = 0.0,
        score_bias: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if mode not in MODES:
            raise ValueError(f"Expected mode to be one of {MODES}. Received: mode={mode!r}.")
        if not isinstance(mechanism, AttentionMechanism) or isinstance(
            mechanism, (StatefulAttention, LocalAttention)
        ):
            raise ValueError(
                "Expected mechanism to be an AttentionMechanism that scores each position "
                f"separately, such as BahdanauAttention(256). Received: mechanism={mechanism}."
            )
        check_nonnegative_number(sigmoid_noise=sigmoid_noise)
        check_number(
            "score_bias", score_bias, math.isfinite, "that is finite", "The default is 0.0."
        )
        check_seed(seed)
        check_compute_dtype(self, mechanism=mechanism)
        self.mechanism = mechanism
        self.mode = mode
        self.sigmoid_noise = sigmoid_noise
        self.score_bias = score_bias
        self.seed = seed
        self.noise = _NoiseOfSteps(sigmoid_noise, seed)

    def _check_probability_fn(self) -> None:
        if self.probability_fn != "softmax":
            raise ValueError(
                'Expected probability_fn="softmax" for monotonic attention. Received: '
                f"probability_fn={self.probability_fn!r}. Set mode to choose how the weights are "
                "computed."
            )

    def build(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> None:
        ensure_built(self.mechanism, query_shape, value_shape, key_shape)
        super().build(query_shape, value_shape, key_shape)

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        initializer = keras.initializers.Constant(self.score_bias)
        self.bias = self.add_weight(name="bias", shape=(), initializer=initializer)

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        return self.mechanism.prepare_memory(value, key, attention_mask)

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        source = ops.shape(memory["values"])[1]
        dtype = wide_dtype(memory["values"])
        first = ops.cast(ops.equal(ops.arange(source, dtype="int32"), 0), dtype)  # (S,)
        alignments = ops.broadcast_to(first, (rows, source))
        noise = {} if max_steps is None else self.noise(alignments, num_steps=max_steps)
        return {"alignments": alignments, **noise}

    def attend_once(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        scores = self.mechanism.checked_scores(query, memory["keys"])  # (B, K, S)
        dtype = wide_dtype(scores)
        scores = ops.cast(scores, dtype) + ops.cast(self.bias, dtype)
        new_state = {}
        if "noise" in state:
            noise, step = ops.stop_gradient(state["noise"]), state["step"]
            step = ops.broadcast_to(
                ops.expand_dims(step, -1), (*ops.shape(step), ops.shape(noise)[3])
            )
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

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "mechanism": serialize_shared(self.mechanism),
            "mode": self.mode,
            "sigmoid_noise": self.sigmoid_noise,
            "score_bias": self.score_bias,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        mechanism = deserialize_shared(config["mechanism"])
        return cls(**{**config, "mechanism": mechanism})


class _NoiseOfSteps(keras.layers.Layer):
    """Samples Gaussian noise for all steps of a sequence during training.

    The noise is sampled before the loop over the steps, because some backends cannot sample in a
    loop.
    """

    def __init__(self, stddev: float, seed: int | None) -> None:
        super().__init__(dtype="float32", name="noise_of_steps")
        self.stddev = stddev
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(
        self, alignments: Tensor, num_steps: int | Tensor, training: bool = False
    ) -> TensorDict:
        if not (training and self.stddev):
            return {}
        rows, source = ops.shape(alignments)
        shape = (rows, num_steps, source)
        noise = keras.random.normal(
            shape, stddev=self.stddev, dtype="float32", seed=self.seed_generator
        )
        return {"noise": noise, "step": ops.zeros((rows, 1), dtype="int32")}


def _expected_parallel(chosen, before):
    """Computes a = p c cumsum(a' / c), appendix C.1 of Raffel et al., 2017.

    Here p are the probabilities `chosen`, a' are the previous weights `before`, and c is the
    probability of skipping all previous positions.
    """
    log_passed = ops.log(ops.clip(1.0 - chosen, LEAST_PROBABILITY, 1.0))  # (B, K, S)
    passed = ops.exp(ops.cumsum(log_passed, axis=-1) - log_passed)
    reached = ops.cumsum(before / ops.clip(passed, LEAST_PROBABILITY, 1.0), axis=-1)
    return chosen * passed * reached


def _expected_recursive(chosen, before):
    """Computes q_s = (1 - p_{s-1}) q_{s-1} + a'_s and a_s = p_s q_s, equations 13 and 14.

    Here p are the probabilities `chosen`, a' are the previous weights `before`, and q_s is the
    probability of reaching position s.
    """

    def step(carry, inputs):
        chosen, before = inputs
        reached = carry["left"] + before  # (B, K)
        weights = chosen * reached
        return {"left": reached - weights, "weights": weights}

    along_source = tuple(ops.transpose(part, (2, 0, 1)) for part in (chosen, before))  # (S, B, K)
    zeros = ops.zeros(ops.shape(chosen)[:-1], dtype=chosen.dtype)  # (B, K)
    _, weights = scan(
        step, {"left": zeros, "weights": zeros}, along_source, lambda carry: carry["weights"]
    )
    return ops.transpose(weights, (1, 2, 0))  # (B, K, S)


def _first_chosen(chosen, before):
    """Selects the first chosen position at or after the previous position, algorithm 1."""
    chosen = chosen * ops.cumsum(before, axis=-1)  # (B, K, S), 0 or 1 each
    is_first = ops.cast(ops.cumsum(chosen, axis=-1) < 1.5, chosen.dtype)
    return ops.stop_gradient(chosen * is_first)
