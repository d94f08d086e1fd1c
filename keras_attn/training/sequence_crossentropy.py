from typing import Any

import keras
from keras import ops

from keras_attn._backend.replicas import num_replicas, sum_over_replicas
from keras_attn._types import Tensor
from keras_attn.output_layers.projection import projection_operands
from keras_attn.training.crossentropy_per_token import crossentropy_per_token
from keras_attn.training.linear_crossentropy import linear_crossentropy
from keras_attn.training.token_metric import TokenMetric
from keras_attn.training.token_statistics import (
    TokenStatistics,
    of_real_tokens,
    weighted,
    weights_of_tokens,
)


@keras.saving.register_keras_serializable(package="keras_attn")
class SequenceCrossentropy(keras.losses.Loss):
    """Cross-entropy of logits, averaged over the real tokens of the global batch.

        loss = sum over real tokens of crossentropy_per_token / number of real tokens

    The global batch is what all replicas of a `tf.distribute` strategy see together in one step:
    a step on two devices has the loss and the gradient of the same step on one, even if the
    sentences do not divide evenly or a replica has none. (Keras' own losses average on each
    replica first, and so give the tokens of a replica with more padding a higher weight.)

    Args:
        label_smoothing: float in `[0, 1)`, probability moved from the label to the other classes,
            in equal shares of `label_smoothing / (V - 1)`. Default 0.
        ignore_class: int, label of padding. Default 0.
        fused: bool, whether `TrainingModel` and `masked_language_model` compute the loss from what
            the logits are a product of, see below. Defaults to `True`.
        name: string.

    Call arguments:
        y_true: int `(batch, target_length)`.
        y_pred: float logits `(batch, target_length, V)`, V >= 2. Computed in float32.
        sample_weight: optional, float `(batch, target_length)` or `(batch, 1)`: factors of the
            tokens' losses. The number of tokens that the sum is divided by stays as it is.

    Returns:
        float32 scalar, in nats. Inside a strategy's replica it is the global loss divided by the
        number of replicas (Keras multiplies by that number before it shows the loss), and its
        gradient is the replica's own share, so that the sum over replicas is right for both.

    With `fused=True`, a training step of a `TrainingModel` or of `masked_language_model` does not
    compute the logits:

        features (B, T, D) ----+
                               +--> linear_crossentropy --> loss and its gradient
        output layer (V, D) ---+            |
                                            +--> statistics (B, T) --> metrics

    `TrainingModel.compute_loss` passes the features and the output layer to `from_features`, which
    calls `linear_crossentropy`. That is faster, needs less memory, and leaves out what has no
    label, such as most tokens of a masked language model. The logits are not part of such a step,
    so they have no gradient. Steps with logits are taken on other backends than TensorFlow, with
    `run_eagerly` or `loss_weights`, in float16, and where the last layer has an activation. Metrics
    of Keras make the step compute the logits for them.

    Masking: labels alone decide. A mask that the logits carry is not used. A batch of nothing but
    padding has the loss 0.

    Raises:
        ValueError: `label_smoothing` is not in `[0, 1)`, or the ranks do not fit, that of the
            weights included.

    Example:

    >>> import numpy as np
    >>> loss = SequenceCrossentropy()
    >>> float(loss(np.array([[2, 0]]), np.zeros((1, 2, 4), "float32")))  # log 4
    1.3862943649291992
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        ignore_class: int = 0,
        name: str = "sequence_crossentropy",
        fused: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "Expected a label_smoothing of at least 0 and below 1. "
                f"Received: label_smoothing={label_smoothing}"
            )
        self.label_smoothing = label_smoothing
        self.ignore_class = ignore_class
        self.fused = fused

    @property
    def is_fused(self) -> bool:
        """Whether `from_features` may take the place of a call: not if a subclass overrides it."""
        return self.fused and type(self).call is SequenceCrossentropy.call

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        labels, _, weights, num_tokens = self._weigh(y_true, sample_weight)
        loss_sum = ops.sum(weighted(self.call(labels, y_pred), weights))
        return _global_mean(loss_sum, num_tokens)

    def from_features(
        self,
        y_true: Tensor,
        features: Tensor,
        output_layer: keras.layers.Layer,
        bias: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> tuple[Any, TokenStatistics]:
        """The loss of the logits `output_layer(features) + bias`, computed block by block.

        Args:
            y_true, sample_weight: see Call arguments.
            features: float `(batch, target_length, features)`.
            output_layer: `keras.layers.Dense` without activation, or
                `keras.layers.ReversibleEmbedding`, which is used in reverse.
            bias: optional `(V,)`, added to the results of the layer.

        Returns:
            Tuple of the loss, as from a call, and the `TokenStatistics` for metrics.
        """
        labels, is_real, weights, num_tokens = self._weigh(y_true, sample_weight)
        features, kernel = projection_operands(features, output_layer, bias)
        loss_sum, statistics = linear_crossentropy(
            labels, features, kernel, weights, self.label_smoothing, is_real
        )
        loss = _global_mean(loss_sum, num_tokens)
        return loss, TokenStatistics(statistics, kernel.shape[0])

    def has_statistics_for(self, metric: keras.metrics.Metric) -> bool:
        """Whether a metric can take the statistics of `from_features` in place of logits."""
        is_of_tokens = isinstance(metric, TokenMetric)
        return is_of_tokens and metric.ignore_class == self.ignore_class

    def _weigh(self, y_true, sample_weight):
        """Labels, where they count, their weights, all `(B, T)`, and how many count."""
        labels = ops.convert_to_tensor(y_true)
        is_real = ops.not_equal(labels, self.ignore_class)
        weights = ops.cast(is_real, "float32")
        num_tokens = ops.sum(weights)
        if sample_weight is not None:
            weights = weights * weights_of_tokens(sample_weight)
        return labels, is_real, weights, num_tokens

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        losses = crossentropy_per_token(y_true, y_pred, self.label_smoothing)  # (B, T)
        return of_real_tokens(losses, y_true, self.ignore_class)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "ignore_class": self.ignore_class,
            "fused": self.fused,
        }


def _global_mean(loss_sum, num_tokens):
    """The mean over the tokens of all replicas, with the gradient of this replica's share."""
    global_sum, global_tokens = sum_over_replicas([ops.stop_gradient(loss_sum), num_tokens])
    global_tokens = ops.maximum(global_tokens, 1.0)
    share = loss_sum / global_tokens
    return share + ops.stop_gradient(global_sum / global_tokens / num_replicas() - share)
