from typing import Any

import keras
from keras import ops

from keras_attn._backend.replicas import sum_over_replicas


@keras.saving.register_keras_serializable(package="keras_attn")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Loss scaling for training in float16, also on several replicas of a strategy.

    It is `keras.optimizers.LossScaleOptimizer`, with the same arguments (Micikevicius et al. 2018,
    https://arxiv.org/abs/1710.03740, section 3.2), without a fault it has on TensorFlow. Keras asks
    the first replica alone whether its gradients are finite, and takes the step if they are: what
    overflows in another one then makes every weight a nan. Here a step is left out when the
    gradients of any replica overflow.

    Example:

    >>> optimizer = LossScaleOptimizer(keras.optimizers.Adam())
    """

    def check_finite(self, grads: list[Any]) -> Any:
        is_finite: Any = super().check_finite(grads)
        overflows = ops.cast(ops.logical_not(is_finite), "float32")
        return ops.equal(sum_over_replicas([overflows])[0], 0)
