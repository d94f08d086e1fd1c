from keras import ops


def crossentropy_per_token(labels, logits, label_smoothing=0.0):
    """Cross-entropy of every token, with uniform label smoothing.

    With `x` the logits, `y` the label, `V` classes and `e = label_smoothing`:

        log p = log_softmax(x)
        loss = -(1 - e) log p[y] - e / (V - 1) * sum over v != y of log p[v]

    Label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7. As in
    OpenNMT and fairseq the smoothed mass goes to the other `V - 1` classes;
    `keras.losses.CategoricalCrossentropy` gives the label a share of it too.

    The `log_softmax` is computed once per graph, however many losses and metrics use it, and the
    gradient is written by hand: both matter, because logits are the largest tensors of a training.

    Args:
        labels: int `(...)`, in `[0, V)`. A label outside has the loss NaN.
        logits: float `(..., V)`, V >= 2. Computed in float32 whatever their dtype.
        label_smoothing: float in `[0, 1)`, probability given to the wrong classes. Default 0.

    Returns:
        float32 `(...)`, in nats.

    Raises:
        ValueError: the rank of `logits` is not that of `labels` plus one, or V < 2.
    """
    labels = ops.cast(labels, "int32")
    logits = ops.cast(logits, "float32")
    if len(logits.shape) != len(labels.shape) + 1:
        raise ValueError(
            "Expected logits with one axis more than the labels (the classes, last). "
            f"Received: labels.shape={tuple(labels.shape)}, logits.shape={tuple(logits.shape)}"
        )
    num_classes = logits.shape[-1]
    if num_classes is None or num_classes < 2:
        raise ValueError(
            "Expected a known number of classes, at least 2, as the last dimension of the logits. "
            f"Received: logits.shape={tuple(logits.shape)}"
        )
    is_class = ops.logical_and(labels >= 0, labels < num_classes)  # (...)
    # A gather outside its bounds fails on some devices and is silent on others.
    labels = ops.clip(labels, 0, num_classes - 1)
    others = label_smoothing / (num_classes - 1)
    label_excess = 1.0 - label_smoothing - others

    @ops.custom_gradient
    def loss(logits):
        log_probs = ops.log_softmax(logits)  # (..., V)
        losses = -label_excess * _at(log_probs, labels)  # (...)
        if others:
            losses = losses - others * ops.sum(log_probs, axis=-1)  # (...)

        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            smoothed = label_excess * ops.one_hot(labels, num_classes) + others  # (..., V)
            return (ops.exp(log_probs) - smoothed) * ops.expand_dims(upstream, -1)  # (..., V)

        return losses, gradient

    return ops.where(is_class, loss(logits), float("nan"))


def _at(values, labels):
    """The value of each label: `(..., V)` and `(...)` to `(...)`."""
    return ops.squeeze(ops.take_along_axis(values, ops.expand_dims(labels, -1), axis=-1), axis=-1)


def of_real_tokens(values, labels, ignore_class):
    """The values `(...)` where a label counts, and 0 where it is `ignore_class`."""
    return ops.where(ops.not_equal(labels, ignore_class), values, 0.0)
