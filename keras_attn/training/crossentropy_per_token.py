import math

from keras import ops


def crossentropy_per_token(labels, logits, label_smoothing=0.0):
    """Cross-entropy of every token, with uniform label smoothing.

    With `x` the logits, `y` the label, `V` classes and `e = label_smoothing`:

        log p = log_softmax(x)
        loss = -(1 - e) log p[y] - e / (V - 1) * sum over v != y of log p[v]

    Label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7. As in
    OpenNMT and fairseq the smoothed mass goes to the other `V - 1` classes;
    `keras.losses.CategoricalCrossentropy` gives the label a share of it too.

    Logits are the largest tensors of a training, so they are passed over as seldom as possible: the
    softmax and the normalizer are computed once per graph, however many losses and metrics use
    them, and the gradient, `softmax(x) - target`, is written by hand. The normalizer comes from the
    most probable class, whose probability cannot vanish:

        log sum over v of exp x[v] = max x - log max softmax(x)

    Args:
        labels: int `(...)`, in `[0, V)`. A label outside has the loss NaN.
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
    if num_classes is None or num_classes < 2:
        raise ValueError(
            "Expected a known number of classes, at least 2, as the last dimension of the logits. "
            f"Received: logits.shape={tuple(logits.shape)}"
        )
    is_class = ops.logical_and(labels >= 0, labels < num_classes)  # (...)
    # A gather outside its bounds fails on some devices and is silent on others.
    labels = ops.clip(labels, 0, num_classes - 1)
    others = label_smoothing / (num_classes - 1)

    @ops.custom_gradient
    def loss(logits):
        probabilities = ops.softmax(logits)  # (..., V)
        # The initial values are for batches of no tokens.
        largest = ops.max(logits, axis=-1, keepdims=True, initial=-math.inf)  # (..., 1)
        of_largest = ops.max(probabilities, axis=-1, keepdims=True, initial=0.0)  # (..., 1)
        normalizer = ops.squeeze(largest - ops.log(of_largest), axis=-1)  # (...)
        losses = (1.0 - label_smoothing - others) * (normalizer - _at(logits, labels))  # (...)
        if others:
            losses += others * (num_classes * normalizer - ops.sum(logits, axis=-1))  # (...)

        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            upstream = ops.expand_dims(upstream, -1)  # (..., 1)
            gradients = probabilities * upstream  # (..., V)
            if others:
                gradients -= others * upstream  # (..., V)
            of_labels = (_at(probabilities, labels) - 1.0 + label_smoothing) * upstream[..., 0]
            return _put(gradients, labels, of_labels)  # (..., V)

        return losses, gradient

    return ops.where(is_class, loss(logits), float("nan"))


def labels_of(labels, logits):
    """Labels int32 `(...)` of logits `(..., V)`: there is one for each, and none is broadcast."""
    labels = ops.cast(labels, "int32")
    pairs = zip(labels.shape, logits.shape[:-1], strict=False)
    fits = all(label == row or None in (label, row) for label, row in pairs)
    if len(logits.shape) != len(labels.shape) + 1 or not fits:
        raise ValueError(
            "Expected logits of the shape of the labels, with one axis more (the classes, last). "
            f"Received: labels.shape={tuple(labels.shape)}, logits.shape={tuple(logits.shape)}"
        )
    return ops.reshape(labels, ops.shape(logits)[:-1])


def _at(values, labels):
    """The value of each label: `(..., V)` and `(...)` to `(...)`."""
    return ops.squeeze(ops.take_along_axis(values, ops.expand_dims(labels, -1), axis=-1), axis=-1)


def _put(values, labels, of_labels):
    """The values `(..., V)`, with others for the labels: both `(...)`."""
    rows = ops.reshape(values, (-1, values.shape[-1]))  # (N, V)
    flat = ops.reshape(labels, (-1,))  # (N,)
    indices = ops.stack([ops.arange(ops.shape(flat)[0]), flat], axis=-1)  # (N, 2)
    rows = ops.scatter_update(rows, indices, ops.reshape(of_labels, (-1,)))  # (N, V)
    return ops.reshape(rows, (*ops.shape(labels), values.shape[-1]))


def weights_of_tokens(sample_weight):
    """Weights float32 `(batch, target_length)` or `(batch, 1)`.

    Raises:
        ValueError: weights of another rank. Those of sentences, `(batch,)`, would be taken for
            weights of positions; and Keras makes such ones of a `class_weight`, which it looks up
            for the position with the largest label.
    """
    weights = ops.cast(sample_weight, "float32")
    if len(weights.shape) != 2:
        raise ValueError(
            "Expected a sample_weight of shape (batch, target_length) or, to weigh sentences, "
            f"(batch, 1); a class_weight cannot be used. Received: shape {tuple(weights.shape)}"
        )
    return weights


def of_real_tokens(values, labels, ignore_class):
    """The values `(...)` where a label counts, and 0 where it is `ignore_class`."""
    return ops.where(ops.not_equal(labels, ignore_class), values, 0.0)
