import keras
from keras import ops

from keras_attn._attention.attention_recorder import record
from keras_attn._layer.layer import Layer
from keras_attn._masks import masked_softmax
from keras_attn._types import Mask, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class WeightedAverage(Layer):
    """Average of values, weighted by the softmax of scores.

        w_ts = exp(e_ts) / sum_s' exp(e_ts')          (s, s': the unmasked positions)
        c_t  = sum_s w_ts v_s

    Here e are the scores, v are the values, and c are the contexts.

    A layer that attends in several directions has one `WeightedAverage` for each direction, so that
    `record_attention_scores` stores the weights under different names.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        scores: Tensor of shape `(batch, target, source)`.
        values: Tensor of shape `(batch, source, features)`.
        attention_mask: Boolean tensor of shape `(batch, 1 or target, source)`; `True` marks
            positions that may be attended to.

    Returns:
        Tuple of the context `(batch, target, features)` and the weights `(batch, target, source)`.

    Masking:
        Masked positions get a weight of exactly 0. If all positions are masked for a target
        position, its weights and its context are 0.

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
