from typing import Any

from keras import ops

from keras_attn._types import Tensor

SHIFT = 3
"""Int, the asymptotic series is evaluated at `x + SHIFT`, where it is exact in float32."""


def log_gamma_ratio(x: Tensor) -> Any:
    """Computes log(Gamma(x + 1/2) / Gamma(x)) for x >= 1.

    The difference of two logarithms of Gamma functions would be inexact for large x. With y = x +
    3, the function computes

        log y / 2 - 1 / (8 y) + 1 / (192 y^3) - 1 / (640 y^5)
        - sum over k = 0, 1, 2 of log((x + k + 1/2) / (x + k))

    Args:
        x: Float tensor, values >= 1.

    Returns:
        Tensor of the same shape.
    """
    y = x + SHIFT
    inverse = 1.0 / y
    square = ops.square(inverse)
    series = inverse * (-1.0 / 8 + square * (1.0 / 192 - square / 640))
    steps = [ops.log1p(0.5 / (x + k)) for k in range(SHIFT)]
    return 0.5 * ops.log(y) + series - sum(steps)
