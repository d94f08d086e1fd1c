from typing import Any

from keras import ops, tree

from keras_attn._backend.dynamic_shapes import dynamic_shapes
from keras_attn._backend.gather import gather_rows
from keras_attn._backend.scan import scan
from keras_attn._types import Mask, Tensor
from keras_attn.training.token_statistics import (
    at_labels,
    check_num_classes,
    crossentropy_of,
    labels_of,
    nan_where_unknown,
    put_at_labels,
    token_statistics,
    weighted,
)

# Logits that are made at once: so many that a processor keeps them in its cache, 8 MiB, or those of
# so many tokens for each feature that adding up the gradient of the kernel takes less than they do.
LOGITS_PER_CHUNK = 2**21
TOKENS_PER_FEATURE = 2

# What is collected of `token_statistics`; the sum of the logits takes no logits.
STATISTICS = ("normalizer", "of_labels", "largest")


def linear_crossentropy(
    labels: Tensor,
    features: Tensor,
    kernel: Tensor,
    weights: Tensor,
    label_smoothing: float = 0.0,
    mask: Mask | None = None,
) -> Any:
    """Weighted sum of the cross-entropy of tokens, of logits that are never there all at once.

    With `h` the features of a token, `E` the kernel, `w` the weight of the token and the loss of
    `crossentropy_per_token`:

        x = E h
        sum over tokens of w * crossentropy_per_token(y, x, label_smoothing)

    The logits of some tokens at a time are computed, used for loss and gradient, and forgotten, as
    in [Hsu et al., 2024](https://arxiv.org/abs/2410.10989) (Liger Kernel, "fused linear cross
    entropy"). What is as large as all logits is neither written to memory nor read from there. Of
    the gradient with `p = softmax(x)`, `e = label_smoothing / (V - 1)` and
    `a = 1 - label_smoothing - e`,

        g = p - a * onehot(y)
        dh = w * (E^T g - e * sum over v of E[v])
        dE = sum over tokens of w * (g - e) h^T

    only the terms with `g` take time. It is computed with the loss, whether asked for or not: for
    a loss alone `crossentropy_per_token` is faster.

    Args:
        labels: int `(...)`, in `[0, V)`.
        features: float `(..., D)`, in the dtype of the products. In float16 the sum over the tokens
            of a chunk, some hundreds, must not overflow.
        kernel: float `(V, D)`, V >= 2, in the same dtype. A bias is the column of a feature that is
            always 1.
        weights: float32 `(...)`, factors of the losses. What has the weight 0 may have any label.
        label_smoothing: float in `[0, 1)`, probability given to the wrong classes. Default 0.
        mask: boolean `(...)`, True = counts. The others must have the weight 0, and take no time
            where shapes may depend on values, see `dynamic_shapes`. Default `None`: all count.

    Returns:
        Tuple of the loss, a float32 scalar in nats, with gradients for features, kernel and
        weights, and a dict without gradients: float32 `(...)` `normalizer` (the log of the sum of
        `exp x`), `of_labels` (the logit of the label), `of_all` (the sum of the logits) and
        `largest` (the largest logit). Where the mask is False they mean nothing.

    Raises:
        ValueError: the shape of `features` is not that of `labels` and one axis more, or V < 2.
    """
    shape = ops.shape(features)[:-1]
    labels = ops.reshape(labels_of(labels, features, "features"), (-1,))  # (N,)
    weights = ops.reshape(ops.cast(weights, "float32"), (-1,))  # (N,)
    features = ops.reshape(features, (-1, features.shape[-1]))  # (N, D)
    if mask is not None:
        mask = ops.reshape(mask, (-1,))  # (N,)
    num_classes = kernel.shape[0]
    check_num_classes(num_classes, "kernel", kernel.shape)
    others = label_smoothing / (num_classes - 1)
    of_label = 1.0 - label_smoothing - others

    @ops.custom_gradient
    def loss(features, kernel, weights):
        found = _of_counted(labels, features, kernel, weights, of_label, mask)
        classes = ops.cast(kernel, "float32")  # (V, D)
        all_classes = ops.sum(classes, axis=0)  # (D,)
        tokens = ops.cast(features, "float32")  # (N, D)
        statistics = {name: found[name] for name in STATISTICS}
        statistics["of_all"] = ops.matmul(tokens, all_classes)  # (N,)
        losses = crossentropy_of(statistics, num_classes, label_smoothing)  # (N,)
        total = ops.sum(weighted(losses, weights))

        def gradient(*args, upstream=None):
            upstream = tree.flatten(args if upstream is None else upstream)[0]  # ()
            factors = ops.expand_dims(weights, -1)  # (N, 1)
            counted = factors * tokens  # (N, D)
            feature_gradient = found["features"] - others * factors * all_classes  # (N, D)
            kernel_gradient = found["kernel"] - others * ops.sum(counted, axis=0)  # (V, D)
            return (
                ops.cast(upstream * feature_gradient, features.dtype),
                ops.cast(upstream * kernel_gradient, kernel.dtype),
                upstream * losses,
            )

        return (total, statistics), gradient

    total, statistics = loss(features, kernel, weights)
    return total, {
        name: ops.reshape(ops.stop_gradient(value), shape) for name, value in statistics.items()
    }


def _of_counted(labels, features, kernel, weights, of_label, mask):
    """What `_in_chunks` returns, made for the tokens with `mask` True alone where that is possible.

    What it returns of the others is then 0.
    """
    if mask is None or not dynamic_shapes():
        return _in_chunks(labels, features, kernel, weights, of_label)
    num_tokens = ops.shape(labels)[0]
    counted = ops.cast(ops.nonzero(mask)[0], "int32")  # (n,)
    labels, features, weights = (
        gather_rows(values, counted) for values in (labels, features, weights)
    )
    found = _in_chunks(labels, features, kernel, weights, of_label)
    kernel_gradient = found.pop("kernel")
    indices = ops.expand_dims(counted, -1)  # (n, 1)
    return {
        "kernel": kernel_gradient,
        **{
            name: ops.scatter(indices, values, (num_tokens, *values.shape[1:]))
            for name, values in found.items()
        },
    }


def _in_chunks(labels, features, kernel, weights, of_label):
    """All that takes logits: of labels and weights `(N,)`, features `(N, D)`, a kernel `(V, D)`.

    Returns:
        Dict of float32 `features` `(N, D)` and `kernel` `(V, D)`, the terms of their gradients that
        have `g`, and `normalizer`, `of_labels` and `largest`, `(N,)`.
    """
    num_classes, size = kernel.shape
    num_tokens = ops.shape(labels)[0]
    most = max(LOGITS_PER_CHUNK // num_classes, TOKENS_PER_FEATURE * size)
    num_chunks = num_tokens // most + 1  # C
    rows = (num_tokens + num_chunks - 1) // num_chunks  # R
    padding = num_chunks * rows - num_tokens

    def chunks(values):
        """`(N, ...)` to `(C, R, ...)`."""
        values = ops.pad(values, [(0, padding)] + [(0, 0)] * (len(values.shape) - 1))
        return ops.reshape(values, (num_chunks, rows, *values.shape[1:]))

    def step(carry, chunk):
        labels, features, weights = chunk
        logits = ops.cast(ops.matmul(features, ops.transpose(kernel)), "float32")  # (R, V)
        statistics, probabilities = token_statistics(labels, logits)
        # In half precision the difference must be taken before what is near 1 is rounded.
        difference = at_labels(probabilities, labels) - of_label  # (R,)
        difference = nan_where_unknown(difference, statistics, weights)
        logit_gradient = put_at_labels(probabilities, labels, difference)  # (R, V)
        logit_gradient = ops.cast(logit_gradient, kernel.dtype)
        factors = ops.expand_dims(weights, -1)  # (R, 1)
        counted = ops.cast(factors, kernel.dtype) * features  # (R, D)
        kernel_gradient = ops.matmul(ops.transpose(logit_gradient), counted)  # (V, D)
        feature_gradient = ops.matmul(logit_gradient, kernel)  # (R, D)
        return {
            "kernel": carry["kernel"] + ops.cast(kernel_gradient, "float32"),
            "features": factors * ops.cast(feature_gradient, "float32"),
            **{name: statistics[name] for name in STATISTICS},
        }

    def of_tokens(carry):
        return {name: value for name, value in carry.items() if name != "kernel"}

    start = {
        "kernel": ops.zeros((num_classes, size)),
        "features": ops.zeros((rows, size)),
        **dict.fromkeys(STATISTICS, ops.zeros((rows,))),
    }
    inputs = chunks(labels), chunks(features), chunks(weights)
    last, collected = scan(step, start, inputs, of_tokens)
    joined = {
        name: ops.reshape(value, (-1, *value.shape[2:]))[:num_tokens]
        for name, value in collected.items()
    }
    return {"kernel": last["kernel"], **joined}
