from typing import Any

import keras

from keras_attn._backend.private_names import set_direction
from keras_attn._layer.argument_checks import check_label_smoothing
from keras_attn.training.token_metric import TokenMetric
from keras_attn.training.token_statistics import crossentropy_of


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenCrossentropy(TokenMetric):
    """Mean cross-entropy per token, in nats.

        mean over the tokens of crossentropy_per_token(labels, logits, label_smoothing)

    If `label_smoothing` has the same value as in `SequenceCrossentropy`, this metric is the exact
    loss of an epoch. The `loss` that Keras reports is different: Keras weights the loss of each
    batch by the number of sentences instead of tokens. The metric ignores tokens with the label
    `ignore_class`. The mean is over all other tokens of all batches and replicas since the last
    reset.

    Args:
        label_smoothing: Float in [0, 1), total probability of the wrong classes, as in
            `SequenceCrossentropy`. Defaults to `0.0`.
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"token_crossentropy"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` of the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the dtype of the metric; 0 if there are no tokens.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` has half
            precision.

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
        set_direction(self, "down")
        check_label_smoothing(label_smoothing)
        self.label_smoothing = label_smoothing

    def values(self, statistics: Any, num_classes: int) -> Any:
        return crossentropy_of(statistics, num_classes, self.label_smoothing)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
