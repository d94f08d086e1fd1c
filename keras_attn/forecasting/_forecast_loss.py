from typing import Any, Self

import keras
from keras import ops

from keras_attn._backend.replicas import global_mean
from keras_attn._layer.argument_checks import check_mean_loss
from keras_attn._types import Tensor
from keras_attn.forecasting._distribution_head import DistributionHead


@keras.saving.register_keras_serializable(package="keras_attn")
class ForecastLoss(keras.losses.Loss):
    """A head's mean loss over all observed values.

        loss = (sum over observed y of w head.loss(y, parameters)) / (number of observed y)

    Here w is the sample weight. Missing values, which are NaN, contribute no loss and no gradient.

    Args:
        head: The forecaster's `DistributionHead`.
        name: String, loss name. Defaults to `"forecast_loss"`.
        reduction: String, must be `"sum_over_batch_size"`. Defaults to `"sum_over_batch_size"`.
        dtype: String, must be `"float32"`. Defaults to `None`: float32.

    Call arguments:
        y_true: Float tensor of shape `(batch, horizon, D)`, the future targets.
        y_pred: Float tensor of shape `(batch, horizon, D, parameters)`, the output of an
            `AutoregressiveForecaster`.
        sample_weight: Float weights of shape `(batch,)`, `(batch, horizon)` or `(batch, horizon,
            D)`. The weighted sum is still divided by the number of observed values. Defaults to
            `None`.

    Returns:
        Float32 scalar. On several devices, the replicas share the loss as described in
        `keras_attn.training.SequenceCrossentropy`.

    Raises:
        ValueError: If `head` is not a `DistributionHead`, or `reduction` or `dtype` differs.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import ForecastLoss, PointHead
    >>> parameters = np.array([[[[1.0, 0.0, 1.0]], [[1.0, 0.0, 1.0]]]])  # prediction, shift, scale
    >>> float(ForecastLoss(PointHead())(np.array([[[3.0], [np.nan]]]), parameters))
    2.0
    """

    def __init__(
        self,
        head: DistributionHead,
        name: str = "forecast_loss",
        reduction: str = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        check_mean_loss(reduction, dtype)
        super().__init__(name=name, dtype="float32")
        if not isinstance(head, DistributionHead):
            raise ValueError(
                f"Expected head to be a DistributionHead. Received: head={head!r}. Pass the head "
                "of the forecaster."
            )
        self.head = head

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        targets = ops.cast(ops.convert_to_tensor(y_true), "float32")
        weights = ops.cast(ops.logical_not(ops.isnan(targets)), "float32")  # (B, H, D)
        num_values = ops.sum(weights)
        losses = self.call(targets, y_pred) * weights
        if sample_weight is not None:
            factors = ops.cast(ops.convert_to_tensor(sample_weight), "float32")
            missing_axes = len(losses.shape) - len(factors.shape)
            losses = losses * ops.reshape(factors, (*ops.shape(factors), *[1] * missing_axes))
        return global_mean(ops.sum(losses), num_values)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        # Replace missing values, because the gradient of NaN would remain NaN after a
        # multiplication by 0.
        parameters = ops.cast(ops.convert_to_tensor(y_pred), "float32")
        shift = parameters[..., -2]
        return self.head.loss(ops.where(ops.isnan(y_true), shift, y_true), parameters)

    def get_config(self) -> dict[str, Any]:
        head = keras.saving.serialize_keras_object(self.head)
        return {"name": self.name, "head": head}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        head = keras.saving.deserialize_keras_object(config["head"])
        return cls(**{**config, "head": head})
