import math
from statistics import NormalDist
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.forecasting._distribution_head import DistributionHead
from keras_attn.forecasting._gaussian_head import SMALLEST_DEVIATION

SHIFT = 3
"""Int, the asymptotic series is evaluated at `x + SHIFT`, where it is exact in float32."""


@keras.saving.register_keras_serializable(package="keras_attn")
class StudentTHead(DistributionHead):
    """Predicts a Student's t-distribution for each target, for series with outliers.

        (z - m) / s ~ t_n
        loss = (n + 1) / 2 log(1 + ((z - m) / s)^2 / n) + log s + log(n pi) / 2
               - log(Gamma((n + 1) / 2) / Gamma(n / 2))

    Here z is the normalized target (see `DistributionHead`), m is the predicted location, and s is
    the predicted width. The predicted number n of degrees of freedom is above 2, so the variance is
    finite. The loss is the negative log likelihood of z. Samples are computed with the polar method
    by [Bailey, 1994](https://doi.org/10.1090/S0025-5718-1994-1219702-8).

    Args:
        num_targets: Positive int, number D of target variables. Defaults to `1`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        shift: Float32 tensor of shape `(..., D)`. Axes of size 1 are broadcast.
        scale: Float32 tensor of shape `(..., D)`, positive. Axes of size 1 are broadcast.

    Returns:
        Float32 parameters m, s, n, shift and scale, `(..., D, 5)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import StudentTHead
    >>> head = StudentTHead()
    >>> parameters = head(np.ones((2, 5), "float32"), np.zeros((2, 1)), np.ones((2, 1)))
    >>> tuple(head.quantiles(parameters, [0.05, 0.95]).shape)
    (2, 1, 2)
    """

    num_parameters = 3

    def constrain(self, raw: Tensor) -> Any:
        positive = ops.softplus(raw[..., 1:]) + ops.convert_to_tensor([SMALLEST_DEVIATION, 2.0])
        return ops.concatenate([raw[..., :1], positive], axis=-1)

    def standard_loss(self, values: Tensor, standard: Tensor) -> Any:
        location, deviation, degrees = (standard[..., index] for index in range(3))
        square = ops.square((values - location) / deviation)
        return (
            0.5 * (degrees + 1.0) * ops.log1p(square / degrees)
            + ops.log(deviation)
            + 0.5 * ops.log(degrees * math.pi)
            - log_gamma_ratio(0.5 * degrees)
        )

    def standard_mean(self, standard: Tensor) -> Any:
        return standard[..., 0]

    def standard_quantiles(self, standard: Tensor, quantile_levels: list[float]) -> Any:
        degrees = standard[..., 2]
        factors = ops.stack(
            [student_t_quantile(level, degrees) for level in quantile_levels], axis=-1
        )
        return standard[..., :1] + standard[..., 1:2] * factors  # (..., D, Q)

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        location, deviation, degrees = (standard[..., index] for index in range(3))
        # 1 - u is in (0, 1], so the logarithm is finite.
        power = ops.exp(-2.0 / degrees * ops.log(1.0 - uniforms[..., 0])) - 1.0
        radius = ops.sqrt(degrees * ops.maximum(power, 0.0))
        return location + deviation * radius * ops.cos(2 * math.pi * uniforms[..., 1])


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
