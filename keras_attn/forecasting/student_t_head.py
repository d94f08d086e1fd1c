import math
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.forecasting.distribution_head import DistributionHead
from keras_attn.forecasting.gaussian_head import SMALLEST_DEVIATION
from keras_attn.forecasting.log_gamma_ratio import log_gamma_ratio
from keras_attn.forecasting.student_t_quantile import student_t_quantile


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

    def standard_quantiles(self, standard: Tensor, levels: list[float]) -> Any:
        degrees = standard[..., 2]
        factors = ops.stack([student_t_quantile(each, degrees) for each in levels], axis=-1)
        return standard[..., :1] + standard[..., 1:2] * factors  # (..., D, Q)

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        location, deviation, degrees = (standard[..., index] for index in range(3))
        # 1 - u is in (0, 1], so the logarithm is finite.
        power = ops.exp(-2.0 / degrees * ops.log(1.0 - uniforms[..., 0])) - 1.0
        radius = ops.sqrt(degrees * ops.maximum(power, 0.0))
        return location + deviation * radius * ops.cos(2 * math.pi * uniforms[..., 1])
