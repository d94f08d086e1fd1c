from typing import Any

import keras
from keras import ops

from keras_attn._backend.private_names import set_direction
from keras_attn.training.token_metric import TokenMetric


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenAccuracy(TokenMetric):
    """Fraction of the tokens whose label has the highest logit.

        accuracy = mean over the tokens of [logits[label] = max logits]

    A tie counts as correct. The decoder predicts each token from the previous target tokens
    (teacher forcing), so the metric does not measure the accuracy of generated sequences. It
    ignores tokens with the label `ignore_class`. The mean is over all other tokens of all batches
    and replicas since the last reset.

    Args:
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"token_accuracy"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` of the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the dtype of the metric in [0, 1]; 0 if there are no tokens.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` has half
            precision.

    Example:

    >>> import numpy as np
    >>> metric = TokenAccuracy()
    >>> float(metric(np.array([[1, 2, 0]]), np.array([[[0, 5, 1], [0, 5, 1], [0, 5, 1]]])))
    0.5
    """

    def __init__(self, ignore_class: int = 0, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)
        set_direction(self, "up")

    def values(self, statistics: Any, num_classes: int) -> Any:
        # Speed: on CPUs, an argmax over the vocabulary is many times slower than a maximum.
        is_best = ops.equal(statistics["of_labels"], statistics["largest"])  # (B, T)
        return ops.cast(is_best, "float32")
