import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_attn._types import Shape, Tensor, TensorDict, TensorLike


@dataclass(frozen=True)
class TokenStatistics:
    """Statistics of token logits, for metrics that do not receive the logits.

    Attributes:
        values: Dict of float32 tensors of shape `(batch, target)`, see `token_statistics`.
        num_classes: Int, number of classes V.
    """

    values: TensorDict
    num_classes: int


def token_statistics(labels: Tensor, logits: Tensor) -> tuple[TensorDict, Tensor]:
    """Computes the statistics that this package's losses and metrics need from logits.

    Unless it is differentiated, the normalizer is computed from the largest logit and the largest
    probability, which is at least 1/V and therefore has a finite logarithm:

        log sum over v of exp x[v] = max x - log max softmax(x)

    This is faster than a second pass over exponentials, but maxima have no second derivative where
    two logits are equal.

    Args:
        labels: Int32 tensor of shape `(...)`, in [0, V).
        logits: Float32 tensor of shape `(..., V)`.

    Returns:
        Tuple of a dict of float32 tensors of shape `(...)` and the probabilities, a float32 tensor
        of shape `(..., V)`. The dict contains `normalizer` (log of the sum of `exp x`), `of_labels`
        (logit of the label; NaN for a label outside of [0, V)), `of_all` (sum of the logits) and
        `largest` (largest logit).
    """
    num_classes = logits.shape[-1]
    is_class = ops.logical_and(labels >= 0, labels < num_classes)  # (...)
    probabilities = ops.softmax(logits)  # (..., V)
    # Without the initial values, a maximum fails for batches without tokens.
    largest = ops.max(logits, axis=-1, initial=-math.inf)  # (...)
    if not _is_differentiated():
        largest_probability = ops.max(probabilities, axis=-1, initial=0.0)  # (...)
        normalizer = largest - ops.log(largest_probability)
    else:
        normalizer = ops.logsumexp(logits, axis=-1)
    statistics = {
        "normalizer": normalizer,
        "of_labels": ops.where(is_class, at_labels(logits, labels), float("nan")),
        "of_all": ops.sum(logits, axis=-1),
        "largest": largest,
    }
    return statistics, probabilities


def _is_differentiated() -> bool:
    """Returns whether the backend may differentiate statistics automatically."""
    if keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        return torch.is_grad_enabled()  # `False` in a function with its own gradient
    return keras.backend.backend() == "jax"


def at_labels(values: Tensor, labels: Tensor) -> Tensor:
    """Selects the values at the labels: `(..., V)` and `(...)` to `(...)`."""
    # An index out of bounds is an error on some devices only, so clip the labels.
    labels = ops.expand_dims(ops.clip(labels, 0, values.shape[-1] - 1), -1)  # (..., 1)
    return ops.squeeze(ops.take_along_axis(values, labels, axis=-1), axis=-1)


def put_at_labels(values: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Replaces the values at the labels: `values` `(..., V)`, `labels` and `new` `(...)`."""
    rows = ops.reshape(values, (-1, values.shape[-1]))  # (N, V)
    flat = ops.clip(ops.reshape(labels, (-1,)), 0, values.shape[-1] - 1)  # (N,)
    indices = ops.stack([ops.arange(ops.shape(flat)[0], dtype="int32"), flat], axis=-1)  # (N, 2)
    rows = ops.scatter_update(rows, indices, ops.reshape(new, (-1,)))  # (N, V)
    return ops.reshape(rows, (*ops.shape(labels), values.shape[-1]))


def nan_where_unknown(values: Tensor, label_logits: Tensor, weights: Tensor) -> Tensor:
    """Replaces values by NaN where the label's logit is NaN and the weight is not 0."""
    unknown = ops.logical_and(ops.isnan(label_logits), ops.not_equal(weights, 0.0))
    return ops.where(unknown, float("nan"), values)


def crossentropy_of(
    statistics: TensorDict, num_classes: int, label_smoothing: float = 0.0
) -> Tensor:
    """Returns the cross-entropies of tokens, float32 `(...)`, see `crossentropy_per_token`."""
    wrong_class = label_smoothing / (num_classes - 1)  # its probability
    normalizer = statistics["normalizer"]
    losses = (1.0 - label_smoothing - wrong_class) * (normalizer - statistics["of_labels"])
    if wrong_class:
        losses += wrong_class * (num_classes * normalizer - statistics["of_all"])
    return losses


def labels_of(labels: TensorLike, values: Tensor, name: str = "logits") -> Tensor:
    """Returns labels as int32 `(...)`. Checks that `values` has the shape `(..., n)`."""
    labels = ops.cast(labels, "int32")
    pairs = zip(labels.shape, values.shape[:-1], strict=False)
    fits = all(label == row or None in (label, row) for label, row in pairs)
    if len(values.shape) != len(labels.shape) + 1 or not fits:
        raise ValueError(
            f"Expected {name} with the shape of the labels and one more axis at the end. Received: "
            f"labels with shape {tuple(labels.shape)}, {name} with shape {tuple(values.shape)}. "
            "Pass one label for each position."
        )
    return ops.reshape(labels, ops.shape(values)[:-1])


def check_num_classes(num_classes: int | None, name: str, shape: Shape) -> None:
    """Raises a `ValueError` unless there are at least two classes."""
    if num_classes is None or num_classes < 2:
        raise ValueError(
            "Expected a known number of classes of at least 2. Received: "
            f"{name} with shape {tuple(shape)}. Define the size of the last axis."
        )


def weights_of_tokens(sample_weight: TensorLike) -> Tensor:
    """Returns float32 weights `(batch, target)` or `(batch, 1)`.

    Raises:
        ValueError: If the rank is not 2. Sentence weights of shape `(batch,)` would be broadcast
            along the wrong axis. A `class_weight` is rejected, too: Keras converts it to weights of
            shape `(batch,)`, and uses the position of the largest label in a row as its class.
    """
    weights = ops.cast(sample_weight, "float32")
    # In TensorFlow, the rank is unknown if the step was traced with different ranks.
    shape: Any = weights.shape
    rank = shape.rank if hasattr(shape, "rank") else len(shape)
    if rank != 2:
        text = f"shape {tuple(shape)}" if rank is not None else "an unknown shape"
        raise ValueError(
            "Expected sample_weight of shape (batch, target), or (batch, 1) for weights of "
            f"sentences. Received: sample_weight with {text}. Expand weights of sentences to "
            "(batch, 1), and do not use class_weight."
        )
    return weights


def weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Multiplies values `(...)` by weights. The result is 0 where the weight is 0."""
    return ops.where(ops.equal(weights, 0.0), 0.0, weights * values)


def of_real_tokens(values: TensorLike, labels: Tensor, ignore_class: int) -> Tensor:
    """Replaces float32 values `(...)` by 0 where the label is `ignore_class`."""
    values = ops.cast(values, "float32")
    return ops.where(ops.not_equal(labels, ignore_class), values, 0.0)
