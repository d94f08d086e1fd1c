from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.weighted_average import WeightedAverage
from keras_attn._layer.argument_checks import check_layers, check_same_batch, check_second_input
from keras_attn._layer.attach_mask import AttachMask
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class SoftAlignment(Layer):
    """Soft alignment of two sequences: attention in both directions with one score matrix.

        e_ij    = F(a_i) . F(b_j)
        beta_i  = sum_j exp(e_ij) / sum_k exp(e_ik) b_j            (the part of b aligned with a_i)
        alpha_j = sum_i exp(e_ij) / sum_k exp(e_kj) a_i            (the part of a aligned with b_j)

    The layer was introduced in section 3.1 of [Parikh et al.,
    2016](https://arxiv.org/abs/1606.01933), equations 1 and 2. F is applied once to each token, so
    the cost of F is linear in the lengths of the sequences.

    Args:
        transform: Keras layer F that maps `(batch, time, features)` to `(batch, time, units)`, for
            instance `keras.layers.Dense(200, "relu")`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        first: Tensor of shape `(batch, first, features)`, the sequences a.
        second: Tensor of shape `(batch, second, features)`, the sequences b.
        first_mask: Boolean tensor of shape `(batch, first)`; `True` marks tokens, `False` marks
            padding. Defaults to the implicit mask of `first`, which Keras passes.
        second_mask: Boolean tensor of shape `(batch, second)`. Defaults to the implicit mask of
            `second`, which Keras passes.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        mask: Must be `None`. A Keras wrapper, such as `TimeDistributed`, passes a single mask. The
            layer cannot know whether this mask belongs to `first` or to `second`.

    Returns:
        Tuple of beta `(batch, first, features)` and alpha `(batch, second, features)`. If
        `return_attention_scores=True`, the tuple also contains the attention weights of beta
        `(batch, first, second)` and alpha `(batch, second, first)`. `record_attention_scores`
        stores the weights of beta under the name `first`, and the weights of alpha under the name
        `second`.

    Masking:
        Masked tokens get a weight of exactly 0. If all tokens of a sequence are masked, the results
        for the other sequence are zeros. Results at masked positions are undefined. Beta has the
        implicit mask of `first`, and alpha has the implicit mask of `second`.

    Raises:
        ValueError: If `transform` is a class instead of a layer; if `second` is missing; if the
            batch sizes differ; or if a mask has the wrong shape, or values other than 0 and 1.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import SoftAlignment
    >>> layer = SoftAlignment(keras.layers.Dense(8, "relu"))
    >>> first, second = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 5), "float32")
    >>> [tuple(aligned.shape) for aligned in layer(first, second)]
    [(2, 3, 5), (2, 7, 5)]
    """

    def __init__(self, transform: keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if isinstance(transform, type):
            check_layers(transform=transform)
        self.transform = transform
        self.average_of_second = WeightedAverage(name="first", dtype=self.dtype_policy)
        self.average_of_first = WeightedAverage(name="second", dtype=self.dtype_policy)
        self.attach_mask = AttachMask(dtype=self.dtype_policy)

    def build(self, first_shape: StaticShape, second_shape: StaticShape | None = None) -> None:
        check_second_input(self, "second", second_shape)
        ensure_built(self.transform, first_shape)

    def call(
        self,
        first: Tensor,
        second: Tensor | None = None,
        first_mask: Mask | None = None,
        second_mask: Mask | None = None,
        return_attention_scores: bool = False,
        mask: Mask | None = None,
    ) -> tuple[Tensor, ...]:
        second = check_second_input(self, "second", second)
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

    def get_config(self) -> dict[str, Any]:
        transform = serialize_shared(self.transform)
        return {**super().get_config(), "transform": transform}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        transform = deserialize_shared(config["transform"])
        return cls(**{**config, "transform": transform})
