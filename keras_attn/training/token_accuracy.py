from typing import Any

import keras
from keras import ops

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

    def __init__(self, ignore_class: int = 0, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)

    def values(self, statistics: Any, num_classes: int) -> Any:
        # On CPU an argmax over the vocabulary is many times slower than a maximum.
        is_best = ops.equal(statistics["of_labels"], statistics["largest"])  # (B, T)
        return ops.cast(is_best, "float32")
