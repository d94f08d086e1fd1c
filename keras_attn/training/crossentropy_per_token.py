from keras import ops

from keras_attn._types import Tensor
from keras_attn.training.token_statistics import (
    at_labels,
    check_num_classes,
    crossentropy_of,
    labels_of,
    nan_where_unknown,
    put_at_labels,
    token_statistics,
)


def crossentropy_per_token(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of every token, with uniform label smoothing.

    With `x` the logits, `y` the label, `V` classes and `e = label_smoothing`:

        log p = log_softmax(x)
        loss = -(1 - e) log p[y] - e / (V - 1) * sum over v != y of log p[v]

    Label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7. As in
    OpenNMT and fairseq the smoothed mass goes to the other `V - 1` classes;
    `keras.losses.CategoricalCrossentropy` gives the label a share of it too.

    Logits are the largest tensors of a training, so they are passed over as seldom as possible: the
    softmax and the normalizer are computed once per graph, however many losses and metrics use
    them, and the gradient, `softmax(x) - target`, is written by hand.

    Args:
        labels: int `(...)`, in `[0, V)`. A label outside has the loss NaN, and so has its gradient.
        logits: float `(..., V)`, V >= 2. Computed in float32 whatever their dtype.
        label_smoothing: float in `[0, 1)`, probability given to the wrong classes. Default 0.

    Returns:
        float32 `(...)`, in nats.

    Raises:
        ValueError: the shape of `logits` is not that of `labels` and one axis more, or V < 2.
    """
    logits = ops.cast(logits, "float32")
    labels = labels_of(labels, logits)
    num_classes = logits.shape[-1]
    check_num_classes(num_classes, "logits", logits.shape)
    others = label_smoothing / (num_classes - 1)

    @ops.custom_gradient
    def loss(logits):
        statistics, probabilities = token_statistics(labels, logits)

        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            factors = ops.expand_dims(upstream, -1)  # (..., 1)
            gradients = probabilities * factors  # (..., V)
            if others:
                gradients -= others * factors  # (..., V)
            of_labels = (at_labels(probabilities, labels) - 1.0 + label_smoothing) * upstream
            of_labels = nan_where_unknown(of_labels, statistics, upstream)
            return put_at_labels(gradients, labels, of_labels)  # (..., V)

        return crossentropy_of(statistics, num_classes, label_smoothing), gradient

    return loss(logits)
