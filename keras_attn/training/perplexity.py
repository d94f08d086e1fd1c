from typing import Any

import keras
from keras import ops

from keras_attn._backend.private_names import set_direction
from keras_attn.training.token_metric import TokenMetric
from keras_attn.training.token_statistics import crossentropy_of


@keras.saving.register_keras_serializable(package="keras_attn")
class Perplexity(TokenMetric):
    """Perplexity per token.

        perplexity = exp(mean cross-entropy of the tokens)

    The cross-entropy does not use label smoothing. A model that predicts a uniform distribution
    over n tokens has the perplexity n. The metric ignores tokens with the label `ignore_class`. The
    mean is over all other tokens of all batches and replicas since the last reset. If there are no
    such tokens, the result is 1.

    Args:
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"perplexity"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` of the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the dtype of the metric.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` has half
            precision.

    Example:

    >>> import numpy as np
    >>> round(float(Perplexity()(np.array([[2, 3, 0]]), np.zeros((1, 3, 4), "float32"))), 4)
    4.0
    """

    def __init__(self, ignore_class: int = 0, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)
        set_direction(self, "down")

    def values(self, statistics: Any, num_classes: int) -> Any:
        return crossentropy_of(statistics, num_classes)  # (B, T)

    def result(self) -> Any:
        return ops.exp(super().result())
