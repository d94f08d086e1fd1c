"""Log probabilities for the logits of a step, which may be infinite."""

from keras import ops

from keras_attn._types import Tensor

# Log probability of impossible tokens. It is finite, because the conversion to ONNX does not
# preserve infinity.
IMPOSSIBLE = -1e9

LARGEST_LOGIT = 1e30
"""Finite value that replaces an infinite logit."""


def log_softmax_of_infinite(logits: Tensor) -> Tensor:
    """Returns log probabilities for logits that may be infinite.

    A logit of minus infinity makes a token impossible. If all tokens in a row are impossible, they
    all get the log probability `IMPOSSIBLE`. Tokens with a logit of infinity are equally likely,
    and all other tokens in the row are impossible. A row with NaN remains NaN.

    Args:
        logits: Float32 tensor of shape `(..., V)`.

    Returns:
        Float32 tensor of shape `(..., V)`, finite except for NaN.
    """
    finite = ops.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    is_dead_end = ops.max(finite, axis=-1, keepdims=True) <= -LARGEST_LOGIT  # (..., 1)
    return ops.where(is_dead_end, IMPOSSIBLE, ops.log_softmax(finite))
