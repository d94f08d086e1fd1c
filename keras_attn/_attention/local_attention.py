from typing import Any, Self

import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.attention_recorder import record
from keras_attn._attention.location_attention import LocationAttention
from keras_attn._backend.float64 import tanh
from keras_attn._backend.gather import gather_rows
from keras_attn._backend.sequential_loops import at_least_one
from keras_attn._decoding_state.beam_axis import merge_beams, split_beams
from keras_attn._layer.argument_checks import check_compute_dtype, check_positive_integer
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._masks import wide_dtype
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict

ALIGNMENTS = ("predictive", "monotonic")


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class LocalAttention(AttentionMechanism):
    """Attention to a window of source positions, with scores from another mechanism.

    With `alignment="predictive"` (local-p), the center p_t of the window is predicted from the
    query:

        p_t  = S sigmoid(v_p . tanh(W_p q_t))                        (S: length of the source)
        a_ts = softmax_s(e_ts) exp(-(s - p_t)^2 / (2 sigma^2))       (|s - p_t| <= D, sigma = D / 2)

    With `alignment="monotonic"` (local-m), the center is the step t. Use this alignment if source
    and target have a similar length and word order:

        p_t  = min(t, S - 1)
        a_ts = softmax_s(e_ts)                                       (|s - p_t| <= D)

    Both forms were introduced in section 3.2 of [Luong et al.,
    2015](https://arxiv.org/abs/1508.04025). Positions and steps are counted from 0. S is the number
    of positions up to the last position that is not masked, so padding on the right does not count.
    The layer only computes scores for the 2 D + 1 positions in the window, but the mask and the
    returned weights cover all positions.

    Args:
        mechanism: `AttentionMechanism` that computes each source position's score only from the
            query and the position's key. `LocationAttention`, `LocalAttention` and
            `StatefulAttention` are not supported, because their scores also depend on the position
            or on previous steps.
        window: Positive int, half width D of the window. Defaults to `10`.
        units: Positive int, number of rows in W_p. Defaults to the query size.
        alignment: String, `"predictive"` (local-p) or `"monotonic"` (local-m). Defaults to
            `"predictive"`.
        kernel_initializer: Initializer for W_p and v_p. Defaults to `"glorot_uniform"`.
        probability_fn: String, the function that maps the scores in a window to weights:
            `"softmax"`, `"sparsemax"` or `"hardmax"`, see `AttentionMechanism`. The
            `probability_fn` of `mechanism` is ignored. Defaults to `"softmax"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

    Masking:
        Masked positions and positions outside of the window get a weight of exactly 0. With
        `"predictive"`, the weights sum to less than 1, because the softmax weights are multiplied
        by a Gaussian. If all positions are masked for a query, its weights and its context are 0.
        Query masks are ignored.

    Raises:
        ValueError: If `mechanism` is not supported, `window` or `units` is not a positive integer,
            or `alignment` is unknown.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LocalAttention, LuongAttention
    >>> layer = LocalAttention(LuongAttention("general"), window=2)
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 70, 4), "float32")
    >>> _, weights = layer(query, value, return_attention_scores=True)
    >>> int(np.count_nonzero(weights[0, 0])) <= 5
    True
    """

    def __init__(
        self,
        mechanism: AttentionMechanism,
        window: int = 10,
        *,
        units: int | None = None,
        alignment: str = "predictive",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_scores_pairs(mechanism)
        check_positive_integer("window", window)
        if units is not None:
            check_positive_integer("units", units)
        if alignment not in ALIGNMENTS:
            raise ValueError(
                f"Expected alignment to be one of {ALIGNMENTS}. Received: alignment={alignment!r}."
            )
        check_compute_dtype(self, mechanism=mechanism)
        self.mechanism = mechanism
        self.window = window
        self.units = units
        self.alignment = alignment
        self.requires_time_loop = alignment == "monotonic"

    def build(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> None:
        ensure_built(self.mechanism, query_shape, value_shape, key_shape)
        super().build(query_shape, value_shape, key_shape)

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        if self.alignment == "monotonic":
            return
        units = query_dim if self.units is None else self.units
        self.position_kernel = self.add_kernel("position_kernel", (query_dim, units))
        self.position_vector = self.add_kernel("position_vector", (units, 1))

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        memory = self.mechanism.prepare_memory(value, key, attention_mask)
        # Add a masked position at the end, so that an empty source has one position to gather.
        allowed = ops.pad(memory["mask"], ((0, 0), (0, 0), (0, 1)))  # (B, 1 or T, S + 1)
        keys, values = (_with_a_position(memory[name]) for name in ("keys", "values"))
        memory = {**memory, "keys": keys, "values": values, "allowed": allowed}
        is_real = ops.any(memory["mask"], axis=1)  # (B, S)
        positions = ops.arange(ops.shape(is_real)[1], dtype="int32")  # (S,)
        lengths = ops.max(ops.where(is_real, positions + 1, 0), axis=1, initial=0)  # (B,)
        return {**memory, "lengths": lengths}

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        if self.alignment == "predictive":
            return {}
        return {"step": ops.zeros((rows, 1), dtype="int32")}

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        if self.alignment == "predictive":
            return super().attend_step(query, memory, state)
        rows, batch = ops.shape(query)[0], ops.shape(memory["mask"])[0]
        steps = split_beams(state["step"][:, 0], batch)  # (B, K)
        results = self._attend_around(split_beams(query, batch), memory, steps)
        context, weights = (merge_beams(result, rows) for result in results)
        return context, weights, {"step": state["step"] + 1}

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        steps = None
        if self.alignment == "monotonic":
            steps = ops.arange(ops.shape(query)[1], dtype="int32")[None]  # (1, T)
        return self._attend_around(query, memory, steps)

    def _attend_around(self, query, memory, steps):
        query = ops.cast(query, self.compute_dtype)
        keys, values, allowed = memory["keys"], memory["values"], memory["allowed"]
        batch, target = ops.shape(query)[0], ops.shape(query)[1]
        source, width = ops.shape(memory["mask"])[2], 2 * self.window + 1
        if steps is None:
            center = self.predict_position(query, memory["lengths"])
            center = ops.expand_dims(center, -1)  # (B, T, 1)
        else:
            last = ops.maximum(memory["lengths"] - 1, 0)[:, None]  # (B, 1)
            center = ops.cast(ops.minimum(steps, last), wide_dtype(query))
            center = ops.expand_dims(center, -1)  # (B, T, 1)
        # Clip the result, because a cast of NaN to an integer is undefined.
        nearest = ops.clip(ops.cast(ops.round(center), "int32"), 0, source)  # (B, T, 1)
        start = nearest - self.window  # (B, T, 1)
        positions = start + ops.arange(width, dtype="int32")  # (B, T, W)
        distance = ops.cast(positions, center.dtype) - center  # (B, T, W)
        is_inside = (positions >= 0) & (positions < source) & (ops.abs(distance) <= self.window)
        last = at_least_one(source) - 1
        columns = ops.clip(positions, 0, last)  # (B, T, W)
        sentences = ops.reshape(ops.arange(batch, dtype="int32"), (-1, 1, 1))
        rows = sentences * (last + 1) + columns  # (B, T, W)
        if allowed.shape[1] == 1:
            allowed = ops.broadcast_to(allowed, (batch, 1, source + 1))
            places = sentences * (source + 1) + columns  # (B, T, W)
            allowed = gather_rows(ops.reshape(allowed, (-1,)), places)  # (B, T, W)
        else:
            allowed = ops.broadcast_to(allowed, (batch, target, source + 1))
            allowed = ops.take_along_axis(allowed, columns, axis=2)  # (B, T, W)
        allowed = allowed & is_inside

        # Merge the batch and query axes: each query has its own window.
        scores = self.mechanism.checked_scores(
            ops.reshape(query, (batch * target, 1, query.shape[2])), _windows(keys, rows, width)
        )  # (B*T, 1, W)
        allowed = ops.reshape(allowed, (batch * target, 1, width))
        weights = self.compute_weights(scores, allowed)  # (B*T, 1, W)
        if self.alignment == "predictive":
            gaussian = ops.exp(-2.0 * ops.square(distance / self.window))  # (B, T, W)
            gaussian = ops.reshape(ops.cast(gaussian, weights.dtype), (batch * target, 1, width))
            weights = weights * gaussian  # (B*T, 1, W)
        context = ops.matmul(weights, _windows(values, rows, width))  # (B*T, 1, D)

        weights = self._place(ops.reshape(weights, (batch, target, width)), positions, source)
        record(self, weights)
        return ops.reshape(context, (batch, target, values.shape[2])), weights

    def _place(self, weights, positions, source):
        """Scatters the weights `(B, T, W)` of the windows to all positions, `(B, T, S)`."""
        batch, target = ops.shape(weights)[0], ops.shape(weights)[1]
        # A window can extend beyond the source: its positions range from -window to
        # source + window. Scatter the weights to a wider array with a column for each of these
        # positions, and return the columns of the source.
        columns = source + 2 * self.window + 1
        rows = ops.reshape(ops.arange(batch * target, dtype="int32"), (batch, target, 1))
        places = rows * columns + positions + self.window  # (B, T, W)
        placed = ops.scatter(
            ops.reshape(places, (-1, 1)), ops.reshape(weights, (-1,)), (batch * target * columns,)
        )
        placed = ops.reshape(placed, (batch, target, columns))
        return placed[:, :, self.window : self.window + source]

    def predict_position(self, query: Tensor, lengths: Tensor) -> Tensor:
        """Predicts the window centers.

        Args:
            query: Tensor of shape `(batch, target, query_dim)`.
            lengths: Int tensor of shape `(batch,)`, each source's length S.

        Returns:
            Tensor of shape `(batch, target)` in float32, or in float64 for a float64 layer.
        """
        hidden = tanh(ops.matmul(query, self.position_kernel))  # (B, T, U)
        logits = ops.matmul(hidden, self.position_vector)[..., 0]  # (B, T)
        logits = ops.cast(logits, wide_dtype(logits))
        return ops.cast(lengths, logits.dtype)[:, None] * ops.sigmoid(logits)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "mechanism": serialize_shared(self.mechanism),
            "window": self.window,
            "units": self.units,
            "alignment": self.alignment,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        mechanism = deserialize_shared(config["mechanism"])
        return cls(**{**config, "mechanism": mechanism})


def _with_a_position(vectors):
    """Pads vectors `(B, S, D)` of an empty source to one position of zeros."""
    if vectors.shape[1]:  # known, and not 0
        return vectors
    source = ops.shape(vectors)[1]
    return ops.pad(vectors, ((0, 0), (0, at_least_one(source) - source), (0, 0)))


def _windows(vectors, rows, width):
    """Gathers `(B * T, W, features)` from `(B, S, features)` by flat row indices `(B, T, W)`."""
    flat = ops.reshape(vectors, (-1, vectors.shape[2]))  # (B*S, D)
    return ops.reshape(gather_rows(flat, rows), (-1, width, vectors.shape[2]))


def check_scores_pairs(mechanism: object) -> None:
    """Raises a `ValueError` unless a mechanism's scores depend only on a query and a key."""
    if (
        not isinstance(mechanism, AttentionMechanism)
        or isinstance(mechanism, (LocationAttention, LocalAttention))
        or mechanism.requires_time_loop
    ):
        raise ValueError(
            "Expected mechanism to be an AttentionMechanism that scores pairs of a query and a "
            f'key, such as LuongAttention("general"). Received: mechanism={mechanism}.'
        )
