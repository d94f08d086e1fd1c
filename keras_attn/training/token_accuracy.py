import math

import keras
from keras import ops

from keras_attn.training.crossentropy_per_token import labels_of
from keras_attn.training.token_metric import TokenMetric


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenAccuracy(TokenMetric):
    """Share of the real tokens whose label has the highest logit, alone or in a tie.

    The history is given (teacher forcing), so it says nothing about whole sentences.

    Args:
        ignore_class: int, label of padding. Default 0.
        name: string.

    Example:

    >>> import numpy as np
    >>> metric = TokenAccuracy()
    >>> float(metric(np.array([[1, 2, 0]]), np.array([[[0, 5, 1], [0, 5, 1], [0, 5, 1]]])))
    0.5
    """

    def __init__(self, ignore_class=0, name="token_accuracy", **kwargs):
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)

    def values(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        # On CPU an argmax over the vocabulary is many times slower than a maximum.
        labels = ops.expand_dims(labels_of(y_true, y_pred), -1)  # (B, T, 1)
        labels = ops.clip(labels, 0, y_pred.shape[-1] - 1)  # an ignored one may be any number
        of_labels = ops.take_along_axis(y_pred, labels, axis=-1)  # (B, T, 1)
        of_best = ops.max(y_pred, axis=-1, keepdims=True, initial=-math.inf)  # (B, T, 1)
        return ops.cast(ops.squeeze(ops.equal(of_labels, of_best), -1), "float32")  # (B, T)
