from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.forecasting._distribution_head import DistributionHead

ERRORS = ("absolute", "squared")


@keras.saving.register_keras_serializable(package="keras_attn")
class PointHead(DistributionHead):
    """Predicts one number for each target, without uncertainty.

        loss = |z - m|    or    loss = (z - m)^2

    Here z is the normalized target (see `DistributionHead`), and m is the prediction. Samples and
    quantiles equal the prediction, so all paths from a `PathSampler` are equal.

    Args:
        num_targets: Positive int, number D of target variables. Defaults to `1`.
        error: String, the loss. With `"absolute"`, the layer learns to predict the median. With
            `"squared"`, it learns to predict the mean. Defaults to `"absolute"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        shift: Float32 tensor of shape `(..., D)`. Axes of size 1 are broadcast.
        scale: Float32 tensor of shape `(..., D)`, positive. Axes of size 1 are broadcast.

    Returns:
        Float32 parameters m, shift and scale, `(..., D, 3)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import PointHead
    >>> head = PointHead()
    >>> parameters = head(np.ones((2, 5), "float32"), np.zeros((2, 1)), np.ones((2, 1)))
    >>> tuple(parameters.shape), tuple(head.mean(parameters).shape)
    ((2, 1, 3), (2, 1))
    """

    def __init__(self, num_targets: int = 1, error: str = "absolute", **kwargs: Any) -> None:
        super().__init__(num_targets, **kwargs)
        if error not in ERRORS:
            raise ValueError(f"Expected error to be one of {ERRORS}. Received: error={error!r}.")
        self.error = error

    def standard_loss(self, values: Tensor, standard: Tensor) -> Any:
        error = values - standard[..., 0]
        return ops.abs(error) if self.error == "absolute" else ops.square(error)

    def standard_mean(self, standard: Tensor) -> Any:
        return standard[..., 0]

    def standard_quantiles(self, standard: Tensor, quantile_levels: list[float]) -> Any:
        return ops.repeat(standard, len(quantile_levels), axis=-1)

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        return standard[..., 0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "error": self.error}
