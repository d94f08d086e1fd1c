from keras import ops

from keras_attn._backend.scan import is_for_litert
from keras_attn._types import Tensor


def softplus(x: Tensor) -> Tensor:
    """Returns `log(1 + exp(x))`, in LiteRT files too without overflow for large `x`.

    Args:
        x: Float tensor of any shape.

    Returns:
        Tensor of the shape and dtype of `x`.
    """
    if is_for_litert():
        # The converter computes `exp(x)`, which is infinite in float32 if x is greater than 88.
        return ops.maximum(x, 0.0) + ops.log1p(ops.exp(-ops.abs(x)))
    return ops.softplus(x)
