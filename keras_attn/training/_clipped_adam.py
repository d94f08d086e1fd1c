from collections.abc import Callable
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_attn._backend.private_names import GradientClipping, adam_moments
from keras_attn._backend.replicas import num_replicas, sum_over_replicas
from keras_attn._layer.argument_checks import (
    check_nonnegative_number,
    check_positive_integer,
    check_share,
)
from keras_attn._types import Tensor

LearningRate: TypeAlias = (
    float | keras.optimizers.schedules.LearningRateSchedule | Callable[[], float | Tensor]
)
"""Argument `learning_rate` of Keras' optimizers."""


@keras.saving.register_keras_serializable(package="keras_attn")
class ClippedAdam(GradientClipping, keras.optimizers.Adam):
    """Adam that clips the global batch's gradient.

        g = clip(sum of the gradients over all replicas)
        m = beta_1 m + (1 - beta_1) g,    v = beta_2 v + (1 - beta_2) g^2
        w = w - learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)

    The optimizer has the arguments of `keras.optimizers.Adam` ([Kingma and Ba,
    2015](https://arxiv.org/abs/1412.6980)). On TensorFlow, it differs from that class in three
    ways:

    - Keras clips the gradients on each replica, and sums them afterwards. `ClippedAdam` clips the
      sum, so training on two devices gives the same result as training on one device.
    - A token that occurs several times in a batch has one embedding gradient for each occurrence.
      For the global norm and the second moment, Keras squares each of these gradients.
      `ClippedAdam` first sums the gradients of a token, and then squares the sum.
    - An update takes about half the time of Keras' update, because one operator replaces ten.

    Clipping by the global norm is algorithm 1 in [Pascanu et al.,
    2013](https://arxiv.org/abs/1211.5063).

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or function without
            arguments. Defaults to `0.001`.
        beta_1: Float in [0, 1), decay rate of the first moment m. Defaults to `0.9`.
        beta_2: Float in [0, 1), decay rate of the second moment v. Defaults to `0.999`.
        epsilon: Float, added to the denominator. Defaults to `1e-7`.
        amsgrad: Bool, whether to use the AMSGrad variant. Defaults to `False`.
        weight_decay: Float, decoupled weight decay. Defaults to `None`: no weight decay.
        clipnorm: Float, maximum gradient norm of each weight. Defaults to `None`: no limit.
        clipvalue: Float, maximum absolute value of each gradient element. Defaults to `None`: no
            limit.
        global_clipnorm: Float, maximum gradient norm of all weights together. Defaults to `None`:
            no limit.
        use_ema: Bool, whether to keep exponential moving averages of the weights. Defaults to
            `False`.
        ema_momentum: Float, their momentum. Defaults to `0.99`.
        ema_overwrite_frequency: Int n. The moving averages replace the weights every n steps.
            Defaults to `None`: only at the end of the training.
        loss_scale_factor: Float. The loss is multiplied by this factor, and the gradients are
            divided by it. Defaults to `None`: no scaling.
        gradient_accumulation_steps: Int, number of steps whose gradients are averaged before each
            update. Defaults to `None`: no accumulation.
        name: String, name of the optimizer. Defaults to `None`.
        **kwargs: Further arguments of `keras.optimizers.Adam`.

    Raises:
        ValueError: If a number is negative, NaN or infinite; if a decay rate is not in [0, 1); or
            if more than one of `clipnorm`, `clipvalue` and `global_clipnorm` is given.

    Example:

    >>> import keras
    >>> from keras_attn.training import ClippedAdam
    >>> optimizer = ClippedAdam(learning_rate=0.001, global_clipnorm=1.0)
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(optimizer, loss="mse")
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        numbers = {
            "learning_rate": None if callable(learning_rate) else learning_rate,
            "epsilon": epsilon,
            "weight_decay": weight_decay,
            "clipnorm": clipnorm,
            "clipvalue": clipvalue,
            "global_clipnorm": global_clipnorm,
            "loss_scale_factor": loss_scale_factor,
        }
        if learning_rate is None or epsilon is None:
            check_nonnegative_number(learning_rate=learning_rate, epsilon=epsilon)
        check_nonnegative_number(
            **{name: number for name, number in numbers.items() if number is not None}
        )
        for rate_name, rate in (("beta_1", beta_1), ("beta_2", beta_2)):
            check_share(rate_name, rate)
        check_share("ema_momentum", ema_momentum)
        steps = {
            "ema_overwrite_frequency": ema_overwrite_frequency,
            "gradient_accumulation_steps": gradient_accumulation_steps,
        }
        for steps_name, number in steps.items():
            if number is not None:
                check_positive_integer(steps_name, number)
        rate_or_schedule: Any = learning_rate  # the annotation of Keras has no schedules
        super().__init__(
            learning_rate=rate_or_schedule,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            clipvalue=clipvalue,
            global_clipnorm=global_clipnorm,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            ema_overwrite_frequency=ema_overwrite_frequency,
            loss_scale_factor=loss_scale_factor,
            gradient_accumulation_steps=gradient_accumulation_steps,
            name=name,
            **kwargs,
        )

    def clip_gradients(self, gradients: list[Tensor]) -> list[Tensor]:
        """Clips the gradients, summed over all replicas.

        Args:
            gradients: List of gradients on this replica.

        Returns:
            List of clipped gradients, divided by the number of replicas.
        """
        replicas = num_replicas()
        gradients = [_dense(gradient) for gradient in gradients]
        if replicas == 1 or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return super().clip_gradients(gradients)
        clipped = super().clip_gradients(sum_over_replicas(gradients))
        # Keras sums the gradients over the replicas afterwards, so each replica returns its share.
        return [gradient / replicas for gradient in clipped]

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """Updates one variable. On TensorFlow without AMSGrad, the update is a single operator."""
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            return super().update_step(gradient, variable, learning_rate)
        import tensorflow as tf

        momentum, velocity = adam_moments(self, variable)
        dtype = variable.dtype
        iterations: Any = self.iterations
        step = ops.cast(iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            beta1_power=ops.power(ops.cast(self.beta_1, dtype), step),
            beta2_power=ops.power(ops.cast(self.beta_2, dtype), step),
            lr=ops.cast(learning_rate, dtype),
            beta1=ops.cast(self.beta_1, dtype),
            beta2=ops.cast(self.beta_2, dtype),
            epsilon=ops.cast(self.epsilon, dtype),
            grad=ops.cast(gradient, dtype),
        )


def _dense(gradient: Tensor) -> Tensor:
    """Converts the sparse gradient of an embedding on TensorFlow to a dense tensor."""
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)
