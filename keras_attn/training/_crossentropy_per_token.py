from keras import ops

from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._types import Tensor, TensorDict
from keras_attn.training._token_statistics import (
    at_labels,
    check_num_classes,
    crossentropy_of,
    labels_of,
    nan_where_unknown,
    put_at_labels,
    token_statistics,
)


def crossentropy_per_token(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each token, with uniform label smoothing.

        log p = log_softmax(x)
        loss  = -(1 - e) log p[y] - e / (V - 1) * sum over v != y of log p[v]

    Here x are the logits, y is the label, V is the number of classes, and e is `label_smoothing`.
    Label smoothing was introduced by [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567),
    section 7. As in OpenNMT and fairseq, the probability e is distributed over the `V - 1` wrong
    classes. `keras.losses.CategoricalCrossentropy` instead distributes it over all V classes.

    The logits are the largest tensor of a training step, so the function reads the logits as few
    times as possible. In a compiled graph, several losses and metrics of the same logits share one
    softmax. The gradient, `softmax(x)` minus the smoothed one-hot label, is computed by its formula
    instead of automatic differentiation. Second derivatives are exact. On JAX, forward mode
    (`jax.jvp`, `jax.jacfwd`) raises a `TypeError`: use `jax.grad`, `jax.jacrev` or `jax.hessian`.

    Args:
        labels: Int tensor of shape `(...)`, in [0, V). Any other label results in a loss and a
            gradient of NaN.
        logits: Float tensor of shape `(..., V)`, V >= 2. The loss is computed in float32. Minus
            infinity excludes a class; the loss is infinite if this class is the label, or if
            `label_smoothing` is above 0. The loss of a row with infinity, or with only minus
            infinity, is NaN.
        label_smoothing: Float in [0, 1), total probability of the wrong classes. Defaults to `0.0`.

    Returns:
        Float32 tensor of shape `(...)`, in nats.

    Raises:
        ValueError: If the shape of `logits` is not the shape of `labels` plus a last axis, or V <
            2.

    Example:

    >>> import numpy as np
    >>> from keras_attn.training import crossentropy_per_token
    >>> losses = crossentropy_per_token(np.array([[2, 0]]), np.zeros((1, 2, 4), "float32"))
    >>> [round(float(loss), 4) for loss in losses[0]]  # log 4
    [1.3863, 1.3863]
    """
    labels = labels_of(labels, logits)
    num_classes = logits.shape[-1]
    check_num_classes(num_classes, "logits", logits.shape)
    wrong_class = label_smoothing / (num_classes - 1)  # its probability

    def forward(logits: Tensor, labels: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        statistics, probabilities = token_statistics(labels, ops.cast(logits, "float32"))
        losses = crossentropy_of(statistics, num_classes, label_smoothing)  # (...)
        return losses, (probabilities, statistics["of_labels"])

    def backward(
        residuals: tuple[Tensor, Tensor], upstream: Tensor, logits: Tensor, labels: Tensor
    ) -> TensorDict:
        probabilities, label_logits = residuals
        factors = ops.expand_dims(upstream, -1)  # (..., 1)
        gradients = probabilities * factors  # (..., V)
        if wrong_class:
            gradients -= wrong_class * factors  # (..., V)
        label_gradients = (at_labels(probabilities, labels) - 1.0 + label_smoothing) * upstream
        label_gradients = nan_where_unknown(label_gradients, label_logits, upstream)
        gradients = put_at_labels(gradients, labels, label_gradients)  # (..., V)
        return {"logits": ops.cast(gradients, logits.dtype)}

    losses, _ = custom_gradient(forward, backward)(logits=logits, labels=labels)
    return losses
