import math
from statistics import NormalDist
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.forecasting._distribution_head import DistributionHead

SMALLEST_DEVIATION = 1e-3
"""Smallest standard deviation, in units of the scale. It limits the loss gradient."""


@keras.saving.register_keras_serializable(package="keras_attn")
class GaussianHead(DistributionHead):
    """Predicts a normal distribution for each target.

        z ~ N(m, s^2)
        loss = (z - m)^2 / (2 s^2) + log s + log(2 pi) / 2

    Here z is the normalized target (see `DistributionHead`), m is the predicted mean, and s is the
    predicted standard deviation. The loss is the negative log likelihood of z, as in DeepAR
    ([Salinas et al., 2017](https://arxiv.org/abs/1704.04110), section 3.1). Samples are computed
    with the Box-Muller transform.

    Args:
        num_targets: Positive int, number D of target variables. Defaults to `1`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        shift: Float32 tensor of shape `(..., D)`. Axes of size 1 are broadcast.
        scale: Float32 tensor of shape `(..., D)`, positive. Axes of size 1 are broadcast.

    Returns:
        Float32 parameters m, s, shift and scale, `(..., D, 4)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import GaussianHead
    >>> head = GaussianHead()
    >>> parameters = head(np.ones((2, 5), "float32"), np.zeros((2, 1)), np.ones((2, 1)))
    >>> tuple(head.quantiles(parameters, [0.05, 0.95]).shape)
    (2, 1, 2)
    """

    num_parameters = 2

    def constrain(self, raw: Tensor) -> Any:
        deviation = ops.softplus(raw[..., 1:]) + SMALLEST_DEVIATION
        return ops.concatenate([raw[..., :1], deviation], axis=-1)

    def standard_loss(self, values: Tensor, standard: Tensor) -> Any:
        mean, deviation = standard[..., 0], standard[..., 1]
        error = (values - mean) / deviation
        return 0.5 * ops.square(error) + ops.log(deviation) + 0.5 * math.log(2 * math.pi)

    def standard_mean(self, standard: Tensor) -> Any:
        return standard[..., 0]

    def standard_quantiles(self, standard: Tensor, quantile_levels: list[float]) -> Any:
        factors = ops.convert_to_tensor(
            [NormalDist().inv_cdf(level) for level in quantile_levels], "float32"
        )
        return standard[..., :1] + standard[..., 1:] * factors  # (..., D, Q)

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        # 1 - u is in (0, 1], so the logarithm is finite.
        radius = ops.sqrt(-2.0 * ops.log(1.0 - uniforms[..., 0]))
        normal = radius * ops.cos(2 * math.pi * uniforms[..., 1])
        return standard[..., 0] + standard[..., 1] * normal
