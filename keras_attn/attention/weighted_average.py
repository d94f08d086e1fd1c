import keras
from keras import ops

from keras_attn._layer.layer import Layer
from keras_attn._types import Mask, Tensor
from keras_attn.attention.attention_recorder import record
from keras_attn.masks import masked_softmax


@keras.saving.register_keras_serializable(package="keras_attn")
class WeightedAverage(Layer):
    """Averages values by the softmax of scores that are already there.

        c_t = sum_s exp(e_ts) / sum_s' exp(e_ts') m_s      (over the positions that are not masked)

    What a layer that attends in several directions has one of for each, so that each has a name of
    its own in `record_attention_scores`.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        scores: `(batch, target, source)`.
        values: `(batch, source, features)`.
        attention_mask: boolean `(batch, 1 or target, source)`, True = may be attended.

    Returns:
        Tuple of context `(batch, target, features)` and weights `(batch, target, source)`.

    Masking:
        Masked positions get weight exactly 0. A row in which everything is masked gets zero weights
        and a zero context.

    Example:

    >>> import numpy as np
    >>> scores, values = np.zeros((1, 1, 2), "float32"), np.array([[[1.0], [3.0]]], "float32")
    >>> context, _ = WeightedAverage()(scores, values, np.array([[[True, True]]]))
    >>> np.array(context).tolist()
    [[[2.0]]]
    """

    def call(
        self, scores: Tensor, values: Tensor, attention_mask: Mask
    ) -> Tensor | tuple[Tensor, Tensor]:
        weights = masked_softmax(scores, attention_mask)  # (B, T, S)
        record(self, weights)
        return ops.matmul(weights, values), weights  # (B, T, D), (B, T, S)
