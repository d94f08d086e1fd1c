from typing import Any

import keras
from keras import ops

from keras_attn._backend.replicas import sum_over_replicas
from keras_attn._layer.argument_checks import check_positive_integer, check_positive_number
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Loss scaling for training in float16, on one or several replicas.

        g = gradients(scale * loss) / scale
        update the weights with g if it is finite, otherwise halve the scale

    Loss scaling was introduced by [Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740),
    section 3.2. The class has the arguments of `keras.optimizers.LossScaleOptimizer`. On
    TensorFlow, the class of Keras only checks the gradients of the first replica, so an overflow in
    any other replica sets all weights to NaN. `keras_attn.training.LossScaleOptimizer` skips a step
    if the gradients of any replica overflow.

    Args:
        inner_optimizer: `keras.optimizers.Optimizer` that updates the weights.
        initial_scale: Float, initial factor of the loss. Defaults to `32768.0`.
        dynamic_growth_steps: Int, the scale is doubled after this number of steps with finite
            gradients. Defaults to `2000`.
        name: String, name of the optimizer. Defaults to `None`.
        **kwargs: Further arguments of `keras.optimizers.LossScaleOptimizer`.

    Raises:
        ValueError: If `initial_scale` or `dynamic_growth_steps` is not positive, or the inner
            optimizer has a `loss_scale_factor`.

    Example:

    >>> import keras
    >>> from keras_attn.training import LossScaleOptimizer
    >>> optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.001), initial_scale=1024.0)
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="mixed_float16")])
    >>> model.compile(optimizer, loss="mse")
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if inner_optimizer.loss_scale_factor is not None:  # Keras removes it without a warning
            raise ValueError(
                "Expected an inner_optimizer with loss_scale_factor=None, because this optimizer "
                "scales the loss. Received: inner_optimizer with loss_scale_factor="
                f"{inner_optimizer.loss_scale_factor}. Pass it as initial_scale."
            )
        check_positive_number(initial_scale=initial_scale)
        check_positive_integer("dynamic_growth_steps", dynamic_growth_steps)
        super().__init__(inner_optimizer, initial_scale, dynamic_growth_steps, name=name, **kwargs)

    def check_finite(self, grads: list[Tensor]) -> Tensor:
        is_finite: Any = super().check_finite(grads)
        overflows = ops.cast(ops.logical_not(is_finite), "float32")
        return ops.equal(sum_over_replicas([overflows])[0], 0)
