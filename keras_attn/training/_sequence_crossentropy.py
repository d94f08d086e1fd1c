from typing import Any, Literal

import keras
from keras import ops

from keras_attn._backend.replicas import global_mean
from keras_attn._layer.argument_checks import check_label, check_label_smoothing, check_mean_loss
from keras_attn._output_layers.projection import projection_operands
from keras_attn._types import Tensor, TensorLike
from keras_attn.training._crossentropy_per_token import crossentropy_per_token
from keras_attn.training._linear_crossentropy import linear_crossentropy
from keras_attn.training._token_metrics import TokenMetric
from keras_attn.training._token_statistics import (
    TokenStatistics,
    of_real_tokens,
    weighted,
    weights_of_tokens,
)


@keras.saving.register_keras_serializable(package="keras_attn")
class SequenceCrossentropy(keras.losses.Loss):
    """Cross-entropy from logits, averaged over the tokens in the global batch.

        loss = sum over tokens of crossentropy_per_token(y, logits) / number of tokens

    The loss ignores tokens with the label `ignore_class`. It does not use Keras masks. The loss is
    0 for a batch that only contains padding.

    The global batch consists of the batches on all replicas in a `tf.distribute` strategy. A step
    on two devices has the same loss and gradient as the same step on one device, even if the
    replicas contain different numbers of tokens. Keras losses first compute a mean on each replica,
    so they give tokens on a replica with more padding a higher weight.

    Second derivatives are exact, for example for a gradient penalty. On JAX, forward mode
    (`jax.jvp`, `jax.jacfwd`) raises a `TypeError`: use `jax.grad`, `jax.jacrev` or `jax.hessian`.

    With `fused=True`, a training step of a `TrainingModel` or a `masked_language_model` does not
    store the logits of all tokens:

        features (B, T, D) ----+
                               +--> from_features --> loss and its gradient
        output layer (V, D) ---+         |
                                         +--> statistics (B, T) --> metrics

    `TrainingModel.compute_loss` passes the features and the output layer to `from_features`. This
    is faster, needs less memory, and skips positions without a label, which are most positions in a
    masked language model. The model output has no gradient in such a step. If a Keras metric needs
    logits, the step computes them for the metric. The loss is computed from logits despite
    `fused=True` in these cases: the backend is not TensorFlow, the model is compiled with
    `run_eagerly` or `loss_weights`, the dtype is float16, or the output layer has an activation.

    Args:
        label_smoothing: Float in [0, 1), total probability for the wrong classes. Each of them has
            the probability `label_smoothing / (V - 1)`. Defaults to `0.0`.
        ignore_class: Int, label of padding. Defaults to `0`.
        name: String, name of the loss. Defaults to `"sequence_crossentropy"`.
        fused: Bool, whether `TrainingModel` and `masked_language_model` may compute the loss
            without storing all logits, see above. Defaults to `True`.
        reduction: String, must be `"sum_over_batch_size"`. Defaults to `"sum_over_batch_size"`.
        dtype: String, must be `"float32"`. Defaults to `None`: float32.

    Call arguments:
        y_true: Int labels of shape `(batch, target)`.
        y_pred: Float logits of shape `(batch, target, V)`, V >= 2. The loss is computed in float32.
        sample_weight: Float token weights of shape `(batch, target)` or `(batch, 1)`. The weighted
            sum is still divided by the number of tokens, not by the sum of the weights. Defaults to
            `None`.

    Returns:
        Float32 scalar, in nats. With a strategy, each replica returns the global loss divided by
        the number of replicas, with the gradient of the replica's own tokens. The sum over the
        replicas is therefore the global loss and its gradient.

    Raises:
        ValueError: If `label_smoothing` is out of range, `reduction` or `dtype` differs, or the
            shapes of labels, logits and weights differ.

    Example:

    >>> import numpy as np
    >>> from keras_attn.training import SequenceCrossentropy
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
        reduction: Literal["sum_over_batch_size"] = "sum_over_batch_size",
        dtype: Literal["float32"] | None = None,
    ) -> None:
        check_mean_loss(reduction, dtype)
        super().__init__(name=name, dtype="float32")
        check_label_smoothing(label_smoothing)
        check_label("ignore_class", ignore_class)
        self.label_smoothing = label_smoothing
        self.ignore_class = ignore_class
        self.fused = fused

    @property
    def is_fused(self) -> bool:
        """Bool, whether `from_features` can replace `call`.

        The value is `False` for a subclass that overrides `call`.
        """
        return self.fused and type(self).call is SequenceCrossentropy.call

    def __call__(
        self, y_true: TensorLike, y_pred: Tensor, sample_weight: TensorLike | None = None
    ) -> Tensor:
        labels, _, weights, num_tokens = self._weigh(y_true, sample_weight)
        loss_sum = ops.sum(weighted(self.call(labels, y_pred), weights))
        return global_mean(loss_sum, num_tokens)

    def from_features(
        self,
        y_true: TensorLike,
        features: Tensor,
        output_layer: keras.layers.Layer,
        bias: Tensor | None = None,
        sample_weight: TensorLike | None = None,
    ) -> tuple[Tensor, TokenStatistics]:
        """Computes the loss from the logits `output_layer(features) + bias` in token chunks.

        Args:
            y_true: See the call arguments.
            features: Float tensor of shape `(batch, target, features)`.
            output_layer: `keras.layers.Dense` without activation, or a
                `keras.layers.ReversibleEmbedding`, called with `reverse=True`.
            bias: Tensor of shape `(V,)`, added to the output, or `None`.
            sample_weight: See the call arguments.

        Returns:
            Tuple `(loss, statistics)`: the averaged loss, a float32 scalar, and the
            `TokenStatistics` for metrics.
        """
        labels, is_real, weights, num_tokens = self._weigh(y_true, sample_weight)
        features, kernel = projection_operands(features, output_layer, bias)
        loss_sum, statistics = linear_crossentropy(
            labels, features, kernel, weights, self.label_smoothing, is_real
        )
        loss = global_mean(loss_sum, num_tokens)
        return loss, TokenStatistics(statistics, kernel.shape[0])

    def has_statistics_for(self, metric: keras.metrics.Metric) -> bool:
        """Returns whether a metric accepts the statistics of `from_features` instead of logits."""
        return isinstance(metric, TokenMetric) and metric.ignore_class == self.ignore_class

    def _weigh(
        self, y_true: TensorLike, sample_weight: TensorLike | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns labels, mask, weights, and the number of labels that are not padding.

        Labels, mask and weights have the shape `(B, T)`. The mask is `False` at padding.
        """
        labels = ops.convert_to_tensor(y_true)
        is_real = ops.not_equal(labels, self.ignore_class)
        weights = ops.cast(is_real, "float32")
        num_tokens = ops.sum(weights)
        if sample_weight is not None:
            weights = weights * weights_of_tokens(sample_weight)
        return labels, is_real, weights, num_tokens

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        losses = crossentropy_per_token(y_true, y_pred, self.label_smoothing)  # (B, T)
        return of_real_tokens(losses, y_true, self.ignore_class)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "ignore_class": self.ignore_class,
            "fused": self.fused,
        }
