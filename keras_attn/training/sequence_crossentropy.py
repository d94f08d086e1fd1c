from typing import Any

import keras
from keras import ops

from keras_attn._backend.replicas import num_replicas, sum_over_replicas
from keras_attn._types import Tensor
from keras_attn.output_layers.projection import projection_of
from keras_attn.training.crossentropy_per_token import crossentropy_per_token
from keras_attn.training.linear_crossentropy import linear_crossentropy
from keras_attn.training.token_statistics import (
    labels_of,
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

    In a training on TensorFlow the logits of a decoder or of `TiedMLMHead` are not computed: what
    they are a product of goes to `linear_crossentropy`, which is faster, needs less memory, and
    leaves out what has no label, such as most tokens of a masked language model. The logits
    are computed where something else needs them, such as a metric of Keras, where their last layer
    has an activation, in float16, and with `run_eagerly`. So there is no gradient with respect to
    them: take that of `tf.identity(logits)`, and call the loss with it. The gradient is computed
    with the loss, also in a call with `training=True` that does not ask for it.

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

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        labels = ops.convert_to_tensor(y_true)
        is_real = ops.not_equal(labels, self.ignore_class)  # (B, T)
        weights = ops.cast(is_real, "float32")
        num_tokens = ops.sum(weights)
        if sample_weight is not None:
            weights = weights * weights_of_tokens(sample_weight)  # (B, T)
        projection = projection_of(y_pred)
        if projection is None or type(self).call is not SequenceCrossentropy.call:
            loss_sum = ops.sum(weighted(self.call(labels, y_pred), weights))
        else:
            labels_of(labels, y_pred)  # an error is to name the logits
            features, kernel = projection.operands()
            loss_sum, statistics = linear_crossentropy(
                labels, features, kernel, weights, self.label_smoothing, is_real
            )
            projection.seen = labels, self.ignore_class, statistics
        global_sum, global_tokens = sum_over_replicas([ops.stop_gradient(loss_sum), num_tokens])
        global_tokens = ops.maximum(global_tokens, 1.0)
        share = loss_sum / global_tokens
        # The value of the global loss with the gradient of the share.
        return share + ops.stop_gradient(global_sum / global_tokens / num_replicas() - share)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        losses = crossentropy_per_token(y_true, y_pred, self.label_smoothing)  # (B, T)
        return of_real_tokens(losses, y_true, self.ignore_class)  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "ignore_class": self.ignore_class,
        }
