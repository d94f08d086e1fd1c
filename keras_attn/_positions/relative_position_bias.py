from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._backend.gather import gather_rows
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.layer import Layer
from keras_attn._positions.position_range import check_position_shapes
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RelativePositionBias(Layer):
    """Learned attention bias for each head and relative position bucket (T5).

        b[h, t, s] = E[bucket(s - t), h]

    If `bidirectional=True`, half of the buckets are for keys after the query. Otherwise all keys
    after the query are in bucket 0, like the key at the query's own position. In each direction,
    each bucket in the first half contains one short distance. Each bucket in the second half
    contains a range of distances, which grows with the distance. All distances of at least
    `max_distance` share the last bucket.

    The bias was introduced for T5 by [Raffel et al., 2020](https://arxiv.org/abs/1910.10683),
    section 2.1. In T5, all blocks share the same bias: call the layer once and pass the result to
    all blocks.

    Args:
        num_heads: Positive int, number of heads.
        num_buckets: Int, number of buckets, at least 2. With `bidirectional=True`, it must be even
            and at least 4. Defaults to `32`.
        max_distance: Positive int. All keys at this or a larger distance share one bucket. It must
            be larger than the number of single-distance buckets, which is `num_buckets / 4` if
            `bidirectional=True`, otherwise `num_buckets / 2`. Defaults to `128`.
        bidirectional: Bool, whether keys after the query use separate buckets. Defaults to `True`.
        embeddings_initializer: Initializer for E. Defaults to `"uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query_positions: Int32 tensor of shape `(1 or batch, target)`.
        key_positions: Int32 tensor of shape `(1 or batch, source)`.

    Returns:
        Tensor of shape `(1 or batch, num_heads, target, source)` in the compute dtype. Add it to
        the scores before masking.

    Masking:
        The layer does not use masks. Attention masks the scores after it adds the bias.

    Raises:
        ValueError: If `num_heads`, `num_buckets` or `max_distance` is not a positive integer, if
            `num_buckets` or `max_distance` is too small, or if the rank of the positions is not 2.

    Example:

    >>> import numpy as np
    >>> from keras_attn import RelativePositionBias
    >>> layer = RelativePositionBias(num_heads=2)
    >>> tuple(layer(np.array([[3]]), np.array([[0, 1, 2, 3]])).shape)
    (1, 2, 1, 4)
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        *,
        max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: InitializerLike = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("num_heads", num_heads)
        check_positive_integer("num_buckets", num_buckets)
        check_positive_integer("max_distance", max_distance)
        if num_buckets < (4 if bidirectional else 2) or (bidirectional and num_buckets % 2):
            raise ValueError(
                "Expected num_buckets >= 2, and an even number >= 4 if bidirectional=True. "
                f"Received: num_buckets={num_buckets}, bidirectional={bidirectional}."
            )
        single = num_buckets // (4 if bidirectional else 2)
        if max_distance <= single:
            raise ValueError(
                f"Expected max_distance > {single}, the number of buckets for a single distance. "
                f"Received: max_distance={max_distance}, num_buckets={num_buckets}."
            )
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.embeddings_initializer = plain_function(keras.initializers.get(embeddings_initializer))

    def build(self, query_positions_shape: StaticShape, key_positions_shape: StaticShape) -> None:
        check_position_shapes(query_positions_shape, key_positions_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, self.num_heads),
            initializer=self.embeddings_initializer,
        )
        self.buckets = relative_position_buckets(
            self.num_buckets, self.max_distance, self.bidirectional
        )

    def call(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distances = ops.expand_dims(key_positions, 1) - ops.expand_dims(query_positions, 2)
        rows = ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance
        # Speed: first create a small table with one row per distance, so that each pair of
        # positions needs one lookup instead of two.
        distance_bias = gather_rows(self.embeddings, self.buckets)  # (2*max_distance + 1, H)
        bias = gather_rows(distance_bias, rows)  # (1 or B, T, S, H)
        return ops.transpose(bias, (0, 3, 1, 2))  # (1 or B, H, T, S)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


def relative_position_buckets(
    num_buckets: int, max_distance: int, bidirectional: bool
) -> np.ndarray:
    """Computes the buckets for all distances up to `max_distance` with integer arithmetic.

    Each direction has N buckets. The first n = N // 2 buckets are for the distances 0 ... n - 1. A
    distance d >= n is in bucket n + floor(log(d/n) / log(max_distance/n) * (N - n)), at most N - 1.
    Rounding errors in logarithms could assign a distance to the wrong bucket, so the function
    compares integer powers instead.

    Args:
        num_buckets: Int, total number of buckets.
        max_distance: Int, largest distance.
        bidirectional: Bool, whether keys after the query use separate buckets.

    Returns:
        Int32 array of shape `(2 * max_distance + 1,)`. The bucket for the distance `key - query` is
        at index `key - query + max_distance`.
    """
    one_way = num_buckets // 2 if bidirectional else num_buckets
    single = one_way // 2
    growing = one_way - single
    past = list(range(single))
    step = 0
    for distance in range(single, max_distance + 1):
        # (distance / single)^growing >= (max_distance / single)^(step + 1)
        while step < growing - 1 and (
            distance**growing * single ** (step + 1) >= max_distance ** (step + 1) * single**growing
        ):
            step += 1
        past.append(single + step)
    past = np.array(past, "int32")
    future = past[1:] + one_way if bidirectional else np.zeros(max_distance, "int32")
    return np.concatenate([past[::-1], future]).astype("int32")
