from typing import Any

import keras
from keras import ops

from keras_attn.training.token_metric import TokenMetric
from keras_attn.training.token_statistics import crossentropy_of


@keras.saving.register_keras_serializable(package="keras_attn")
class Perplexity(TokenMetric):
    """exp(mean cross-entropy per real token), without label smoothing.

    A model that spreads its probability evenly over `n` tokens has perplexity `n`. Of no tokens
    at all it is 1.

    Args:
        ignore_class: int, label of padding. Default 0.
        name: string.

    Example:

    >>> import numpy as np
    >>> round(float(Perplexity()(np.array([[2, 3, 0]]), np.zeros((1, 3, 4), "float32"))), 4)
    4.0
    """

    def __init__(self, ignore_class: int = 0, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)

    def values(self, statistics: Any, num_classes: int) -> Any:
        return crossentropy_of(statistics, num_classes)  # (B, T)

    def result(self) -> Any:
        return ops.exp(super().result())
