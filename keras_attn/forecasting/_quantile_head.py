from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_attn._serialization.former_names import with_new_names
from keras_attn._types import Tensor
from keras_attn.forecasting._distribution_head import DistributionHead, checked_levels

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@keras.saving.register_keras_serializable(package="keras_attn")
class QuantileHead(DistributionHead):
    """Predicts quantiles for each target, without assuming a distribution.

        loss = 2 / Q sum over i of max(l_i (z - q_i), (l_i - 1) (z - q_i))

    Here z is the normalized target (see `DistributionHead`), and q_i is the predicted quantile at
    level l_i. This is the pinball loss for the levels l_1 < ... < l_Q ([Koenker and Bassett,
    1978](https://doi.org/10.2307/1913643)). The quantiles q_i cannot cross: the layer predicts the
    lowest quantile and the positive differences between consecutive quantiles. The quantile
    function is linear between the levels, and continues linearly beyond the first and the last
    level. Samples are values of this function at random levels.

    Args:
        num_targets: Positive int, number D of target variables. Defaults to `1`.
        quantile_levels: Increasing floats in (0, 1), at least two. Defaults to `(0.05, 0.1, 0.2,
            ..., 0.9, 0.95)`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        shift: Float32 tensor of shape `(..., D)`. Axes of size 1 are broadcast.
        scale: Float32 tensor of shape `(..., D)`, positive. Axes of size 1 are broadcast.

    Returns:
        Float32 parameters q_1, ..., q_Q, shift and scale, `(..., D, Q + 2)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import QuantileHead
    >>> head = QuantileHead(quantile_levels=(0.1, 0.5, 0.9))
    >>> parameters = head(np.ones((2, 5), "float32"), np.zeros((2, 1)), np.ones((2, 1)))
    >>> tuple(head.quantiles(parameters, [0.05, 0.95]).shape)
    (2, 1, 2)
    """

    def __init__(
        self, num_targets: int = 1, quantile_levels: Sequence[float] = LEVELS, **kwargs: Any
    ) -> None:
        super().__init__(num_targets, **kwargs)
        self.quantile_levels = checked_levels(quantile_levels)
        if len(self.quantile_levels) < 2:
            raise ValueError(
                "Expected at least two quantile_levels. Received: "
                f"quantile_levels={quantile_levels!r}. To predict only the median, use PointHead."
            )
        self.num_parameters = len(self.quantile_levels)

    def constrain(self, raw: Tensor) -> Any:
        differences = ops.softplus(raw[..., 1:])
        return ops.cumsum(ops.concatenate([raw[..., :1], differences], axis=-1), axis=-1)

    def standard_loss(self, values: Tensor, standard: Tensor) -> Any:
        levels = ops.convert_to_tensor(self.quantile_levels, "float32")
        errors = values[..., None] - standard  # (..., D, Q)
        return 2.0 * ops.mean(ops.maximum(levels * errors, (levels - 1.0) * errors), axis=-1)

    def standard_mean(self, standard: Tensor) -> Any:
        # The mean of the quantile function over [0, 1]: the areas of trapezoids.
        edges = [0.0, *self.quantile_levels, 1.0]
        weights = self._weights(edges)  # (Q + 2, Q)
        areas = (weights[1:] + weights[:-1]) / 2 * np.diff(edges)[:, None]
        return ops.sum(standard * ops.convert_to_tensor(areas.sum(0), "float32"), axis=-1)

    def standard_quantiles(self, standard: Tensor, quantile_levels: list[float]) -> Any:
        return ops.matmul(
            standard, ops.convert_to_tensor(self._weights(quantile_levels).T, "float32")
        )

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        uniform = uniforms[..., 0]
        result = standard[..., 0]
        for index, (low, high) in enumerate(
            zip(self.quantile_levels, self.quantile_levels[1:], strict=False)
        ):
            slope = (standard[..., index + 1] - standard[..., index]) / (high - low)
            # The first and the last segment also contain the values beyond the levels.
            start = 0.0 if index == 0 else low
            end = 1.0 if index == len(self.quantile_levels) - 2 else high
            inside = ops.clip(uniform, start, end)
            result = result + slope * (inside - (low if index == 0 else start))
        return result

    def _weights(self, levels):
        """Returns the matrix `(levels, Q)` that maps predicted quantiles to other levels."""
        known_levels = np.array(self.quantile_levels)
        rows = []
        for level in levels:
            left = int(np.clip(np.searchsorted(known_levels, level) - 1, 0, len(known_levels) - 2))
            share = (level - known_levels[left]) / (known_levels[left + 1] - known_levels[left])
            row = np.zeros(len(known_levels))
            row[left], row[left + 1] = 1 - share, share
            rows.append(row)
        return np.stack(rows)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "quantile_levels": self.quantile_levels}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return super().from_config(with_new_names(config, {"levels": "quantile_levels"}))
