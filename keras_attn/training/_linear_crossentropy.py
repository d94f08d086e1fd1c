from keras import ops

from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._backend.dynamic_shapes import dynamic_shapes
from keras_attn._backend.gather import gather_rows
from keras_attn._backend.scan import scan
from keras_attn._types import Mask, Tensor, TensorDict
from keras_attn.training._token_statistics import (
    at_labels,
    check_num_classes,
    crossentropy_of,
    labels_of,
    nan_where_unknown,
    put_at_labels,
    token_statistics,
    weighted,
)

# Maximum number of logits in a chunk: 8 MiB in float32, which fit into the cache of a CPU.
LOGITS_PER_CHUNK = 2**21
# Minimum number of tokens in a chunk, divided by the number of features. This minimum takes
# precedence over the maximum of logits. With fewer tokens, adding the kernel gradients of the
# chunks would take longer than the matrix products.
TOKENS_PER_FEATURE = 2

# All but the last statistic are computed from the logits of a chunk. `of_all` needs no logits: the
# sum of the logits is h^T (sum over v of E[v]).
STATISTICS = ("normalizer", "of_labels", "largest", "of_all")


def linear_crossentropy(
    labels: Tensor,
    features: Tensor,
    kernel: Tensor,
    weights: Tensor,
    label_smoothing: float = 0.0,
    mask: Mask | None = None,
) -> tuple[Tensor, TensorDict]:
    """Weighted sum of token cross-entropies, computed without storing all logits.

        x    = E h
        loss = sum over tokens of w * crossentropy_per_token(y, x, label_smoothing)

    Here h are the features of a token, E is the kernel, y is the label and w is the token's weight.
    The function processes the tokens in chunks: it computes a chunk's logits x, uses them for the
    loss and the gradient, and discards them, as in [Hsu et al.,
    2024](https://arxiv.org/abs/2410.10989) (Liger Kernel, "fused linear cross entropy"). The logits
    for all tokens never exist at the same time. With `p = softmax(x)`, `e = label_smoothing / (V -
    1)` and `a = 1 - label_smoothing - e`, the gradient is:

        g  = p - a * onehot(y)
        dh = w * (E^T g - e * sum over v of E[v])
        dE = sum over tokens of w * (g - e) h^T

    Only the terms with g are expensive. The function always computes these terms together with the
    loss, so `crossentropy_per_token` is faster if no gradient is needed. Second derivatives are
    exact. On JAX, forward mode (`jax.jvp`, `jax.jacfwd`) raises a `TypeError`: use `jax.grad`,
    `jax.jacrev` or `jax.hessian`.

    Args:
        labels: Int tensor of shape `(...)`, in [0, V).
        features: Float tensor of shape `(..., D)`. The matrix products have its dtype. In float16,
            the summed gradients in a chunk (some hundred tokens) must not overflow.
        kernel: Float tensor of shape `(V, D)`, V >= 2, in the dtype of `features`. To use a bias,
            append it to the kernel as a column, and append a feature that is always 1.
        weights: Float32 tensor of shape `(...)`, the token weights. A token with the weight 0 may
            have any label.
        label_smoothing: Float in [0, 1), total probability for the wrong classes. Defaults to
            `0.0`.
        mask: Boolean tensor of shape `(...)`; `True` marks tokens that contribute to the loss. All
            other tokens must have the weight 0. Backends with dynamic shapes skip these tokens.
            Defaults to `None`: all tokens contribute.

    Returns:
        Tuple of the loss and a statistics dict. The loss is a float32 scalar in nats, with
        gradients for features, kernel and weights. The statistics are float32 tensors of shape
        `(...)` without gradients: `normalizer` (log of the sum of `exp x`), `of_labels` (logit of
        the label), `of_all` (sum of the logits) and `largest` (largest logit). They are undefined
        where the mask is `False`.

    Raises:
        ValueError: If the shape of `features` is not the shape of `labels` plus a last axis, or V <
            2.

    Example:

    >>> import numpy as np
    >>> labels, weights = np.array([2, 0]), np.ones(2, "float32")
    >>> features, kernel = np.zeros((2, 3), "float32"), np.ones((4, 3), "float32")
    >>> loss, statistics = linear_crossentropy(labels, features, kernel, weights)
    >>> round(float(loss), 4)  # 2 log 4
    2.7726
    """
    shape = ops.shape(features)[:-1]
    labels = ops.reshape(labels_of(labels, features, "features"), (-1,))  # (N,)
    weights = ops.reshape(ops.cast(weights, "float32"), (-1,))  # (N,)
    features = ops.reshape(features, (-1, features.shape[-1]))  # (N, D)
    if mask is not None:
        mask = ops.reshape(mask, (-1,))  # (N,)
    num_classes = kernel.shape[0]
    check_num_classes(num_classes, "kernel", kernel.shape)
    wrong_class = label_smoothing / (num_classes - 1)  # its probability
    label_factor = 1.0 - label_smoothing - wrong_class

    def forward(
        labels: Tensor, features: Tensor, kernel: Tensor, weights: Tensor, mask: Mask | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        results = _unmasked(labels, features, kernel, weights, label_factor, mask)
        all_classes = ops.sum(ops.cast(kernel, "float32"), axis=0)  # (D,)
        tokens = ops.cast(features, "float32")  # (N, D)
        statistics = {name: results[name] for name in STATISTICS[:-1]}
        statistics["of_all"] = ops.matmul(tokens, all_classes)  # (N,)
        losses = crossentropy_of(statistics, num_classes, label_smoothing)  # (N,)
        factors = ops.expand_dims(weights, -1)  # (N, 1)
        counted = factors * tokens  # (N, D)
        residuals = (
            results["features"] - wrong_class * factors * all_classes,  # (N, D)
            results["kernel"] - wrong_class * ops.sum(counted, axis=0),  # (V, D)
            losses,
            *(statistics[name] for name in STATISTICS),
        )
        return ops.sum(weighted(losses, weights)), residuals

    def backward(
        residuals: tuple[Tensor, ...],
        upstream: Tensor,
        features: Tensor,
        kernel: Tensor,
        **_: object,
    ) -> TensorDict:
        feature_gradient, kernel_gradient, losses = residuals[:3]
        return {
            "features": ops.cast(upstream * feature_gradient, features.dtype),
            "kernel": ops.cast(upstream * kernel_gradient, kernel.dtype),
            "weights": upstream * losses,
        }

    total, residuals = custom_gradient(forward, backward)(
        labels=labels, features=features, kernel=kernel, weights=weights, mask=mask
    )
    statistics = zip(STATISTICS, residuals[3:], strict=True)
    return total, {name: ops.reshape(value, shape) for name, value in statistics}


def _unmasked(
    labels: Tensor,
    features: Tensor,
    kernel: Tensor,
    weights: Tensor,
    label_factor: float,
    mask: Mask | None,
) -> TensorDict:
    """Calls `_in_chunks` for the tokens whose mask is `True`.

    All other tokens have the results 0. Backends without dynamic shapes process all tokens.
    """
    if mask is None or not dynamic_shapes():
        return _in_chunks(labels, features, kernel, weights, label_factor)
    num_tokens = ops.shape(labels)[0]
    counted = ops.cast(ops.nonzero(mask)[0], "int32")  # (n,)
    labels, features, weights = (
        gather_rows(values, counted) for values in (labels, features, weights)
    )
    results = _in_chunks(labels, features, kernel, weights, label_factor)
    kernel_gradient = results.pop("kernel")
    indices = ops.expand_dims(counted, -1)  # (n, 1)
    return {
        "kernel": kernel_gradient,
        **{
            name: ops.scatter(indices, values, (num_tokens, *values.shape[1:]))
            for name, values in results.items()
        },
    }


def _in_chunks(
    labels: Tensor, features: Tensor, kernel: Tensor, weights: Tensor, label_factor: float
) -> TensorDict:
    """Computes all results that need logits, in chunks of tokens.

    Args:
        labels: Int32 tensor of shape `(N,)`.
        features: Tensor of shape `(N, D)`.
        kernel: Tensor of shape `(V, D)`.
        weights: Float32 tensor of shape `(N,)`.
        label_factor: Float, the factor a in `linear_crossentropy`.

    Returns:
        Dict of float32 tensors. `features` `(N, D)` and `kernel` `(V, D)` are the terms of `dh` and
        `dE` that contain g, see `linear_crossentropy`. `normalizer`, `of_labels` and `largest` have
        the shape `(N,)`.
    """
    num_classes, size = kernel.shape
    num_tokens = ops.shape(labels)[0]
    most = max(LOGITS_PER_CHUNK // num_classes, TOKENS_PER_FEATURE * size)
    num_chunks = num_tokens // most + 1  # C
    rows = (num_tokens + num_chunks - 1) // num_chunks  # R
    padding = num_chunks * rows - num_tokens

    def chunks(values: Tensor) -> Tensor:
        """Reshapes `(N, ...)` to `(C, R, ...)`, with padding."""
        values = ops.pad(values, [(0, padding)] + [(0, 0)] * (len(values.shape) - 1))
        return ops.reshape(values, (num_chunks, rows, *values.shape[1:]))

    def step(carry: TensorDict, chunk: tuple[Tensor, Tensor, Tensor]) -> TensorDict:
        labels, features, weights = chunk
        logits = ops.cast(ops.matmul(features, ops.transpose(kernel)), "float32")  # (R, V)
        statistics, probabilities = token_statistics(labels, logits)
        # Subtract in float32: half precision would round probabilities near 1.
        difference = at_labels(probabilities, labels) - label_factor  # (R,)
        difference = nan_where_unknown(difference, statistics["of_labels"], weights)
        logit_gradient = put_at_labels(probabilities, labels, difference)  # (R, V)
        logit_gradient = ops.cast(logit_gradient, kernel.dtype)
        factors = ops.expand_dims(weights, -1)  # (R, 1)
        counted = ops.cast(factors, kernel.dtype) * features  # (R, D)
        kernel_gradient = ops.matmul(ops.transpose(logit_gradient), counted)  # (V, D)
        feature_gradient = ops.matmul(logit_gradient, kernel)  # (R, D)
        return {
            "kernel": carry["kernel"] + ops.cast(kernel_gradient, "float32"),
            "features": factors * ops.cast(feature_gradient, "float32"),
            **{name: statistics[name] for name in STATISTICS[:-1]},
        }

    def token_results(carry: TensorDict) -> TensorDict:
        return {name: value for name, value in carry.items() if name != "kernel"}

    start = {
        "kernel": ops.zeros((num_classes, size), "float32"),
        "features": ops.zeros((rows, size), "float32"),
        **dict.fromkeys(STATISTICS[:-1], ops.zeros((rows,), "float32")),
    }
    inputs = chunks(labels), chunks(features), chunks(weights)
    last, collected = scan(step, start, inputs, token_results)
    joined = {
        name: ops.reshape(value, (-1, *value.shape[2:]))[:num_tokens]
        for name, value in collected.items()
    }
    return {"kernel": last["kernel"], **joined}
