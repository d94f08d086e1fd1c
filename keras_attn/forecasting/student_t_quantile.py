import math
from statistics import NormalDist
from typing import Any

from keras import ops

from keras_attn._types import Tensor


def student_t_quantile(level: float, degrees: Tensor) -> Any:
    """Computes a quantile of Student's t-distribution.

    This is algorithm 396 of [Hill, 1970](https://doi.org/10.1145/355598.355600).

    Args:
        level: Float in (0, 1).
        degrees: Float tensor, degrees of freedom, at least 2.

    Returns:
        Tensor of the shape of `degrees`.
    """
    if level == 0.5:
        return ops.zeros_like(degrees)
    n, both_tails = degrees, 2 * min(level, 1 - level)
    a = 1.0 / (n - 0.5)
    b = 48.0 / ops.square(a)
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * ops.sqrt(a * (0.5 * math.pi)) * n
    y = ops.exp(ops.log(d * both_tails) * 2.0 / n)
    center = NormalDist().inv_cdf(both_tails / 2)
    square = _central(n, a, b, c, d, center)
    square = ops.where(y > 0.05 + a, square, _tail(n, d, y))
    return math.copysign(1.0, level - 0.5) * ops.sqrt(n * square)


def _central(n, a, b, c, d, x):
    """Returns t^2 / n for levels that are not in the tail; x is the normal quantile."""
    y = x * x
    c = ops.where(n < 5.0, c + 0.3 * (n - 4.5) * (x + 0.6), c)
    c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c
    y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
    y = a * ops.square(y)
    return ops.where(y > 0.002, ops.exp(y) - 1.0, 0.5 * ops.square(y) + y)


def _tail(n, d, y):
    """Returns t^2 / n for levels in the tail."""
    factor = 1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)
    return (factor * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y
