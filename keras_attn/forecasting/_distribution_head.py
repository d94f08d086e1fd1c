from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._types import StaticShape, Tensor
from keras_attn_checks.number_types import is_number


class DistributionHead(Layer):
    """Base class for forecaster heads: maps features to a distribution for each target.

        z = (y - shift) / scale
        p(z) = distribution(W features + b)

    Here y is a target value, and shift and scale normalize its series. The layer returns one tensor
    of *parameters*: those of the distribution of z, followed by shift and scale. A head's methods
    take this tensor as an argument, so they need no weights.

    A subclass defines `num_parameters` and overrides `constrain`, `standard_loss`, `standard_mean`,
    `standard_quantiles` and `standard_sample`. These methods compute with z, not with y.

    Args:
        num_targets: Positive int, number D of target variables. Defaults to `1`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        shift: Float32 tensor of shape `(..., D)`. Axes of size 1 are broadcast.
        scale: Float32 tensor of shape `(..., D)`, positive. Axes of size 1 are broadcast.

    Returns:
        Float32 parameters of shape `(..., D, num_parameters + 2)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn.forecasting import DistributionHead
    >>> class LaplaceHead(DistributionHead):
    ...     num_parameters = 2
    ...
    ...     def constrain(self, raw):
    ...         return ops.concatenate([raw[..., :1], ops.softplus(raw[..., 1:])], axis=-1)
    ...
    ...     def standard_loss(self, values, standard):
    ...         location, width = standard[..., 0], standard[..., 1]
    ...         return ops.abs(values - location) / width + ops.log(2 * width)
    >>> parameters = LaplaceHead()(np.ones((2, 5), "float32"), np.zeros((2, 1)), np.ones((2, 1)))
    >>> tuple(parameters.shape)
    (2, 1, 4)
    """

    num_parameters = 1
    """Int, number of parameters in the distribution of z."""

    def __init__(self, num_targets: int = 1, **kwargs: Any) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round shift and scale
        super().__init__(**kwargs)
        check_positive_integer("num_targets", num_targets)
        self.num_targets = num_targets
        self.dense: Any = None

    def build(
        self,
        inputs_shape: StaticShape,
        shift_shape: StaticShape | None = None,
        scale_shape: StaticShape | None = None,
    ) -> None:
        units = self.num_targets * self.num_parameters
        self.dense = keras.layers.Dense(units, dtype=self.dtype_policy, name="dense")
        ensure_built(self.dense, inputs_shape)

    def call(self, inputs: Tensor, shift: Tensor, scale: Tensor) -> Any:
        raw = ops.cast(self.dense(inputs), "float32")  # (..., D * P)
        shape = (*ops.shape(raw)[:-1], self.num_targets, self.num_parameters)
        standard = self.constrain(ops.reshape(raw, shape))  # (..., D, P)
        ones = ops.ones_like(standard[..., :1])  # (..., D, 1)
        shift, scale = (ones * ops.cast(part, "float32")[..., None] for part in (shift, scale))
        return ops.concatenate([standard, shift, scale], axis=-1)  # (..., D, P + 2)

    def loss(self, targets: Tensor, parameters: Tensor) -> Any:
        """Returns the loss for each target value.

        Args:
            targets: Float tensor of shape `(..., D)`, finite values.
            parameters: The layer's result.

        Returns:
            Float32 tensor of shape `(..., D)`. The loss is computed from z, so it does not depend
            on the series' unit.
        """
        standard, shift, scale = _split(parameters)
        return self.standard_loss((ops.cast(targets, "float32") - shift) / scale, standard)

    def mean(self, parameters: Tensor) -> Any:
        """Returns target means, float32 of shape `(..., D)`."""
        standard, shift, scale = _split(parameters)
        return shift + scale * self.standard_mean(standard)

    def quantiles(self, parameters: Tensor, quantile_levels: Sequence[float]) -> Any:
        """Returns target quantiles.

        Args:
            parameters: The layer's result.
            quantile_levels: List of Q floats in (0, 1).

        Returns:
            Float32 tensor of shape `(..., D, Q)`.
        """
        standard, shift, scale = _split(parameters)
        values = self.standard_quantiles(standard, checked_levels(quantile_levels))
        return shift[..., None] + scale[..., None] * values

    def sample(self, parameters: Tensor, uniforms: Tensor) -> Any:
        """Samples a value for each target.

        Args:
            parameters: The layer's result.
            uniforms: Float32 tensor of shape `(..., D, 2)` with random numbers in [0, 1).

        Returns:
            Float32 tensor of shape `(..., D)`.
        """
        standard, shift, scale = _split(parameters)
        uniforms = ops.convert_to_tensor(uniforms)
        return shift + scale * self.standard_sample(standard, uniforms)

    def constrain(self, raw: Tensor) -> Any:
        """Maps unconstrained numbers `(..., D, P)` to parameters with the same shape."""
        return raw

    def standard_loss(self, values: Tensor, standard: Tensor) -> Any:
        """Returns the losses `(..., D)` for values z and parameters `(..., D, P)`."""
        raise NotImplementedError(f"{type(self).__name__} must override `standard_loss`.")

    def standard_mean(self, standard: Tensor) -> Any:
        """Returns the means `(..., D)` of z."""
        raise NotImplementedError(f"{type(self).__name__} must override `standard_mean`.")

    def standard_quantiles(self, standard: Tensor, quantile_levels: list[float]) -> Any:
        """Returns the quantiles `(..., D, Q)` of z."""
        raise NotImplementedError(f"{type(self).__name__} must override `standard_quantiles`.")

    def standard_sample(self, standard: Tensor, uniforms: Tensor) -> Any:
        """Returns samples `(..., D)` of z."""
        raise NotImplementedError(f"{type(self).__name__} must override `standard_sample`.")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_targets": self.num_targets}


def checked_levels(quantile_levels: Sequence[float]) -> list[float]:
    """Returns quantile levels as a list of floats.

    Raises:
        ValueError: If the list is empty, not increasing, or contains numbers outside (0, 1).
    """
    values = list(quantile_levels)
    is_valid = bool(values) and all(is_number(value) and 0 < value < 1 for value in values)
    if not is_valid or any(low >= high for low, high in zip(values, values[1:], strict=False)):
        raise ValueError(
            "Expected quantile_levels to be increasing numbers in (0, 1). Received: "
            f"quantile_levels={quantile_levels!r}. Pass for example (0.05, 0.5, 0.95)."
        )
    return [float(value) for value in values]


def _split(parameters):
    """Returns the parameters of z `(..., D, P)`, the shift `(..., D)` and the scale `(..., D)`."""
    parameters = ops.convert_to_tensor(parameters)
    return parameters[..., :-2], parameters[..., -2], parameters[..., -1]
