from typing import Any

import keras

from keras_attn.training.token_metric import TokenMetric
from keras_attn.training.token_statistics import crossentropy_of


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenCrossentropy(TokenMetric):
    """Mean cross-entropy per real token, in nats.

    With the label smoothing of the loss it is the loss of an epoch, exactly: the `loss` that Keras
    reports weighs the loss of each batch by its number of sentences, not of tokens.

    Args:
        label_smoothing: float in `[0, 1)`, as in `SequenceCrossentropy`. Default 0.
        ignore_class: int, label of padding. Default 0.
        name: string.

    Example:

    >>> import numpy as np
    >>> metric = TokenCrossentropy()
    >>> float(metric(np.array([[2, 3], [1, 0]]), np.zeros((2, 2, 4), "float32")))  # log 4
    1.3862943649291992
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        ignore_class: int = 0,
        name: str = "token_crossentropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def values(self, statistics: Any, num_classes: int) -> Any:
        return crossentropy_of(statistics, num_classes, self.label_smoothing)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
