from typing import Any

import keras
from keras import ops

from keras_attn._backend.replicas import sum_over_replicas
from keras_attn.training.token_statistics import (
    TokenStatistics,
    check_num_classes,
    labels_of,
    of_real_tokens,
    token_statistics,
    weighted,
    weights_of_tokens,
)


class TokenMetric(keras.metrics.Metric):
    """Mean of a value over all real tokens since the last reset; a subclass says of which value.

    It is the mean over the tokens of all batches and all replicas, not a mean of means. The
    result is the same on every replica, also where a replica has seen no token.

    Args:
        ignore_class: int, label of padding. Default 0.
        name: string.

    Call arguments (of `update_state`):
        y_true: int `(batch, target_length)`.
        y_pred: float logits `(batch, target_length, V)`, or the `TokenStatistics` of a fused loss
            with the same `ignore_class`.
        sample_weight: optional, float `(batch, target_length)` or `(batch, 1)`: weights of the
            tokens.

    Returns (of `result`):
        float32 scalar; 0 if no token was seen.

    Raises:
        ValueError: a `sample_weight` of another rank.
    """

    def __init__(self, ignore_class: int = 0, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.ignore_class = ignore_class
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.num_tokens = self.add_variable(shape=(), initializer="zeros", name="num_tokens")

    def values(self, statistics: Any, num_classes: int) -> Any:
        """The value of every token, float32 `(batch, target_length)`; padding may have any.

        Args:
            statistics: see `token_statistics`.
            num_classes: int, V.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `values`.")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
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

    def result(self) -> Any:
        total, num_tokens = sum_over_replicas(
            [ops.convert_to_tensor(self.total), ops.convert_to_tensor(self.num_tokens)]
        )
        return ops.divide_no_nan(total, num_tokens)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_class": self.ignore_class}


def _statistics_of_logits(labels, logits):
    if not hasattr(logits, "shape"):
        logits = ops.convert_to_tensor(logits)
    num_classes = logits.shape[-1]
    check_num_classes(num_classes, "logits", logits.shape)
    logits = ops.cast(logits, "float32")
    return TokenStatistics(token_statistics(labels_of(labels, logits), logits)[0], num_classes)
