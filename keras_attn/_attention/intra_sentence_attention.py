from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.weighted_average import WeightedAverage
from keras_attn._backend.gather import gather_rows
from keras_attn._layer.argument_checks import check_positive_integer, check_second_input
from keras_attn._layer.attach_mask import AttachMask
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._positions.position_range import position_range
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class IntraSentenceAttention(Layer):
    """Self-attention within each of two sequences, with a learned bias for each distance.

        f_ij = F(a_i) . F(a_j)
        a'_i = sum_j exp(f_ij + d_(i-j)) / sum_k exp(f_ik + d_(i-k)) a_j

    The layer was introduced in section 3.4 of [Parikh et al.,
    2016](https://arxiv.org/abs/1606.01933), equations 7 and 8. All distances above `max_distance`,
    in both directions, share one bias. Both sequences use the same F and d. The sequences do not
    attend to each other.

    Args:
        transform: Keras layer F that maps `(batch, time, features)` to `(batch, time, units)`, for
            instance `keras.layers.Dense(200, "relu")`.
        max_distance: Positive int, largest distance (in tokens) with its own bias. Defaults to
            `10`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        first: Tensor of shape `(batch, first, features)`.
        second: Tensor of shape `(batch, second, features)`.
        first_mask: Boolean tensor of shape `(batch, first)`; `True` marks tokens, `False` marks
            padding. Defaults to the implicit mask of `first`, which Keras passes.
        second_mask: Boolean tensor of shape `(batch, second)`. Defaults to the implicit mask of
            `second`, which Keras passes.
        mask: Must be `None`. A Keras wrapper, such as `TimeDistributed`, passes a single mask. The
            layer cannot know whether this mask belongs to `first` or to `second`.

    Returns:
        Tuple of tensors of shapes `(batch, first, features)` and `(batch, second, features)`.
        `record_attention_scores` stores the weights under the names `first` and `second`.

    Masking:
        Masked tokens get a weight of exactly 0. If all tokens in a sequence are masked, the results
        for this sequence are zeros. Results at masked positions are undefined. The results have the
        inputs' implicit masks.

    Raises:
        ValueError: If `max_distance` is not a positive integer; if `second` is missing; or if a
            mask has the wrong shape, or values other than 0 and 1.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import IntraSentenceAttention
    >>> layer = IntraSentenceAttention(keras.layers.Dense(8, "relu"))
    >>> first, second = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 5), "float32")
    >>> [tuple(context.shape) for context in layer(first, second)]
    [(2, 3, 5), (2, 7, 5)]
    """

    def __init__(
        self, transform: keras.layers.Layer, max_distance: int = 10, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("max_distance", max_distance)
        self.supports_masking = True
        self.transform = transform
        self.max_distance = max_distance
        self.average_of_first = WeightedAverage(name="first", dtype=self.dtype_policy)
        self.average_of_second = WeightedAverage(name="second", dtype=self.dtype_policy)
        self.attach_mask = AttachMask(dtype=self.dtype_policy)

    def build(self, first_shape: StaticShape, second_shape: StaticShape | None = None) -> None:
        check_second_input(self, "second", second_shape)
        ensure_built(self.transform, first_shape)
        self.distance_bias = self.add_weight(
            name="distance_bias", shape=(2 * self.max_distance + 2,), initializer="zeros"
        )

    def call(
        self,
        first: Tensor,
        second: Tensor | None = None,
        first_mask: Mask | None = None,
        second_mask: Mask | None = None,
        mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_second_input(self, "second", second)
        masks.refuse_single_mask(mask, "first_mask", "second_mask")
        first_mask = masks.join(first, first_mask=first_mask)
        second_mask = masks.join(second, second_mask=second_mask)
        first = self._attend(self.average_of_first, first, first_mask)
        second = self._attend(self.average_of_second, second, second_mask)
        return self.attach_mask(first, mask=first_mask), self.attach_mask(second, mask=second_mask)

    def _attend(self, average, words, mask):
        keys = ops.cast(self.transform(words), self.compute_dtype)  # (B, T, U)
        scores = ops.matmul(keys, ops.transpose(keys, (0, 2, 1)))  # (B, T, T)
        bias = self._bias(ops.shape(words)[1])  # (T, T)
        return average(scores + bias, words, masks.attention_mask(words, mask))[0]  # (B, T, D)

    def _bias(self, length):
        """Returns d_(i-j), of shape `(length, length)`. Index 0 is the bias of large distances."""
        positions = position_range(length)[0]  # (T,)
        distances = positions[:, None] - positions  # (T, T)
        is_near = ops.abs(distances) <= self.max_distance
        rows = ops.where(is_near, distances + self.max_distance + 1, 0)
        return gather_rows(ops.cast(self.distance_bias, self.compute_dtype), rows)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "transform": serialize_shared(self.transform),
            "max_distance": self.max_distance,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        transform = deserialize_shared(config["transform"])
        return cls(**{**config, "transform": transform})
