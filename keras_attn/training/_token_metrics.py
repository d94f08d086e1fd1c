from typing import Any

import keras
from keras import ops

from keras_attn._backend.private_names import set_direction
from keras_attn._backend.replicas import sum_over_replicas
from keras_attn._layer.argument_checks import check_label, check_label_smoothing
from keras_attn._types import Tensor, TensorDict, TensorLike
from keras_attn.training._token_statistics import (
    TokenStatistics,
    check_num_classes,
    crossentropy_of,
    labels_of,
    of_real_tokens,
    token_statistics,
    weighted,
    weights_of_tokens,
)


class TokenMetric(keras.metrics.Metric):
    """Base class of metrics that compute the mean of a value over all tokens.

    The mean is over all tokens in all batches and replicas since the last reset, not over batch
    means. Every replica returns the same result, even one without tokens. Subclasses implement
    `values`.

    Args:
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `None`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype`: `"float32"` (default) or
            `"float64"`, the dtype for the sums.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`. Or the `TokenStatistics` of a
            `SequenceCrossentropy` with `fused=True` and the same `ignore_class`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the metric's dtype; 0 if there are no tokens.

    Raises:
        ValueError: If `sample_weight` has the wrong rank, or `dtype` is half precision.
    """

    def __init__(self, ignore_class: int = 0, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        check_label("ignore_class", ignore_class)
        self.ignore_class = ignore_class
        if self.dtype not in ("float32", "float64"):
            raise ValueError(
                "Expected dtype to be 'float32' or 'float64', because sums over tokens exceed "
                f"half precision. Received: dtype={self.dtype!r}."
            )
        arguments = {"shape": (), "initializer": "zeros", "dtype": self.dtype}
        self.total = self.add_variable(name="total", **arguments)
        self.num_tokens = self.add_variable(name="num_tokens", **arguments)

    def values(self, statistics: TensorDict, num_classes: int) -> Tensor:
        """Returns a value for each token. The metric ignores the values at padding.

        Args:
            statistics: Dict, see `token_statistics`.
            num_classes: Int, number of classes.

        Returns:
            Float32 tensor of shape `(batch, target)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `values`.")

    def update_state(
        self,
        y_true: TensorLike,
        y_pred: TensorLike | TokenStatistics,
        sample_weight: TensorLike | None = None,
    ) -> None:
        labels = ops.convert_to_tensor(y_true)
        weights = of_real_tokens(1.0, labels, self.ignore_class)  # (B, T)
        if sample_weight is not None:
            weights = weights * weights_of_tokens(sample_weight)  # (B, T)
        if not isinstance(y_pred, TokenStatistics):
            y_pred = _statistics_of_logits(labels, y_pred)
        values = self.values(y_pred.values, y_pred.num_classes)
        values = of_real_tokens(values, labels, self.ignore_class)  # (B, T)
        self.total.assign_add(ops.sum(weighted(values, weights)))
        self.num_tokens.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        total, num_tokens = sum_over_replicas(
            [ops.convert_to_tensor(self.total), ops.convert_to_tensor(self.num_tokens)]
        )
        return ops.divide_no_nan(total, num_tokens)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_class": self.ignore_class}


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenAccuracy(TokenMetric):
    """Fraction of tokens whose label has the highest logit.

        accuracy = mean over the tokens of [logits[label] = max logits]

    A tie counts as correct. The decoder predicts each token from the previous target tokens
    (teacher forcing), so the metric does not measure how accurate generated sequences are. It
    ignores tokens with the label `ignore_class`. The mean is over all other tokens in all batches
    and replicas since the last reset.

    Args:
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"token_accuracy"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` for the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in [0, 1], in the metric's dtype; 0 if there are no tokens.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` is half
            precision.

    Example:

    >>> import numpy as np
    >>> from keras_attn.training import TokenAccuracy
    >>> metric = TokenAccuracy()
    >>> float(metric(np.array([[1, 2, 0]]), np.array([[[0, 5, 1], [0, 5, 1], [0, 5, 1]]])))
    0.5
    """

    def __init__(self, ignore_class: int = 0, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)
        set_direction(self, "up")

    def values(self, statistics: TensorDict, num_classes: int) -> Tensor:
        # Speed: on CPUs, an argmax over the vocabulary is many times slower than a maximum.
        is_best = ops.equal(statistics["of_labels"], statistics["largest"])  # (B, T)
        return ops.cast(is_best, "float32")


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenCrossentropy(TokenMetric):
    """Mean cross-entropy per token, in nats.

        mean over the tokens of crossentropy_per_token(labels, logits, label_smoothing)

    If `label_smoothing` has the same value as in `SequenceCrossentropy`, this metric is the exact
    loss in an epoch. The `loss` that Keras reports is different: it weights batch losses by the
    number of sentences instead of tokens. The metric ignores tokens with the label `ignore_class`.
    The mean is over all other tokens in all batches and replicas since the last reset.

    Args:
        label_smoothing: Float in [0, 1), total probability of the wrong classes, as in
            `SequenceCrossentropy`. Defaults to `0.0`.
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"token_crossentropy"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` for the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the metric's dtype; 0 if there are no tokens.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` is half
            precision.

    Example:

    >>> import numpy as np
    >>> from keras_attn.training import TokenCrossentropy
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

    def values(self, statistics: TensorDict, num_classes: int) -> Tensor:
        return crossentropy_of(statistics, num_classes, self.label_smoothing)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable(package="keras_attn")
class Perplexity(TokenMetric):
    """Perplexity per token.

        perplexity = exp(mean cross-entropy per token)

    The cross-entropy does not use label smoothing. A model that predicts a uniform distribution
    over n tokens has the perplexity n. The metric ignores tokens with the label `ignore_class`. The
    mean is over all other tokens in all batches and replicas since the last reset. Without such
    tokens, the result is 1.

    Args:
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the metric. Defaults to `"perplexity"`.
        **kwargs: Arguments of `keras.metrics.Metric`, such as `dtype` for the sums: float32
            (default) or float64.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, classes)`.
        sample_weight: Float weights of shape `(batch, target)` or `(batch, 1)`. Defaults to `None`.

    Returns:
        Scalar in the metric's dtype.

    Raises:
        ValueError: If `sample_weight` or `y_pred` has the wrong shape, or `dtype` is half
            precision.

    Example:

    >>> import numpy as np
    >>> from keras_attn.training import Perplexity
    >>> round(float(Perplexity()(np.array([[2, 3, 0]]), np.zeros((1, 3, 4), "float32"))), 4)
    4.0
    """

    def __init__(self, ignore_class: int = 0, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(ignore_class=ignore_class, name=name, **kwargs)
        set_direction(self, "down")

    def values(self, statistics: TensorDict, num_classes: int) -> Tensor:
        return crossentropy_of(statistics, num_classes)  # (B, T)

    def result(self) -> Tensor:
        return ops.exp(super().result())


def _statistics_of_logits(labels: Tensor, logits: TensorLike) -> TokenStatistics:
    logits = ops.cast(logits, "float32")
    num_classes = logits.shape[-1]
    check_num_classes(num_classes, "logits", logits.shape)
    return TokenStatistics(token_statistics(labels_of(labels, logits), logits)[0], num_classes)
