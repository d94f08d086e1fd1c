import keras
from keras import ops

from keras_attn import masks
from keras_attn._layer.argument_checks import check_layers, check_same_batch, check_second_input
from keras_attn._layer.attach_mask import AttachMask
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.attention.weighted_average import WeightedAverage


@keras.saving.register_keras_serializable(package="keras_attn")
class SoftAlignment(Layer):
    """Aligns two sentences with each other: attention in both directions, from one score matrix.

        e_ij    = F(a_i) . F(b_j)
        beta_i  = sum_j exp(e_ij) / sum_k exp(e_ik) b_j            what of b belongs to a_i
        alpha_j = sum_i exp(e_ij) / sum_k exp(e_kj) a_i            what of a belongs to b_j

    Introduced by [Parikh et al., 2016](https://arxiv.org/abs/1606.01933), section 3.1, equations 1
    and 2. F reads each word once, so it costs as much as the sentences are long, not their product.

    Args:
        transform: layer F from `(batch, time, features)` to `(batch, time, units)`, for instance
            `keras.layers.Dense(200, "relu")`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        first: `(batch, first, features)`, the sentences a.
        second: `(batch, second, features)`, the sentences b.
        first_mask: boolean `(batch, first)`, True = real. Default: the implicit mask of `first`,
            passed by Keras.
        second_mask: boolean `(batch, second)`, likewise.
        return_attention_scores: bool, whether to return the weights too.
        mask: must be `None`. A wrapper that passes one mask cannot pass those of both.

    Returns:
        Tuple of `(batch, first, features)`, the beta, and `(batch, second, features)`, the alpha;
        with the scores also the weights `(batch, first, second)` and `(batch, second, first)`.
        `record_attention_scores` knows the weights by the names `first` and `second`.

    Masking:
        Masked words get weight exactly 0; aligned with a sentence that has no other words, all gets
        zeros. What stands at the masked words of the results has no meaning; beta has the mask of
        `first`, and alpha that of `second`.

    Example:

    >>> import numpy as np
    >>> layer = SoftAlignment(keras.layers.Dense(8, "relu"))
    >>> first, second = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 5), "float32")
    >>> [tuple(aligned.shape) for aligned in layer(first, second)]
    [(2, 3, 5), (2, 7, 5)]
    """

    def __init__(self, transform, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if isinstance(transform, type):
            check_layers(transform=transform)
        self.transform = transform
        self.average_of_second = WeightedAverage(name="first", dtype=self.dtype_policy)
        self.average_of_first = WeightedAverage(name="second", dtype=self.dtype_policy)
        self.attach_mask = AttachMask(dtype=self.dtype_policy)

    def build(self, first_shape, second_shape=None):
        check_second_input(self, "second", second_shape)
        ensure_built(self.transform, first_shape)

    def call(
        self,
        first,
        second=None,
        first_mask=None,
        second_mask=None,
        return_attention_scores=False,
        mask=None,
    ):
        check_second_input(self, "second", second)
        check_same_batch(self, first=first, second=second)
        masks.refuse_single_mask(mask, "first_mask", "second_mask")
        first_mask = masks.join(first, first_mask=first_mask)
        second_mask = masks.join(second, second_mask=second_mask)
        queries = ops.cast(self.transform(first), self.compute_dtype)  # (B, T, U)
        keys = ops.cast(self.transform(second), self.compute_dtype)  # (B, S, U)
        scores = ops.matmul(queries, ops.transpose(keys, (0, 2, 1)))  # (B, T, S)
        over_first = masks.attention_mask(first, first_mask)  # (B, 1, T)
        over_second = masks.attention_mask(second, second_mask)  # (B, 1, S)
        beta, over_second = self.average_of_second(scores, second, over_second)
        scores = ops.transpose(scores, (0, 2, 1))  # (B, S, T)
        alpha, over_first = self.average_of_first(scores, first, over_first)
        beta, alpha = (
            self.attach_mask(beta, mask=first_mask),
            self.attach_mask(alpha, mask=second_mask),
        )
        return (beta, alpha, over_second, over_first) if return_attention_scores else (beta, alpha)

    def get_config(self):
        transform = serialize_shared(self.transform)
        return {**super().get_config(), "transform": transform}

    @classmethod
    def from_config(cls, config):
        transform = deserialize_shared(config["transform"])
        return cls(**{**config, "transform": transform})
