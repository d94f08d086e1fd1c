import math
from typing import Any, Self

import keras
from keras import ops

from keras_attn._layer.argument_checks import check_positive_integer, check_positive_number
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate with linear warmup and inverse square root decay.

        learning_rate = peak * min(s / w, sqrt(w / s)),    s = step + 1,  w = warmup_steps

    The schedule was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762),
    equation 3. In that paper, the peak depends on the model width; see `noam`. With `total_steps`
    and `decay_steps`, the rate in the last `decay_steps` steps is additionally multiplied by
    `(total_steps - step) / decay_steps`, so it decreases to nearly 0. This final decay improves
    short trainings.

    Args:
        peak_learning_rate: Positive float, learning rate after the warmup.
        warmup_steps: Positive int, number of warmup steps.
        total_steps: Int, total number of training steps. Later steps have the rate 0. Defaults to
            `None`: no final decay.
        decay_steps: Int in [1, `total_steps`], number of final decay steps. Required with
            `total_steps`. Defaults to `None`.
        name: String, schedule name. Defaults to `"inverse_square_root_schedule"`.

    Raises:
        ValueError: If an argument is out of range, or only one of `total_steps` and `decay_steps`
            is given.

    Example:

    >>> from keras_attn.training import InverseSquareRootSchedule
    >>> schedule = InverseSquareRootSchedule(0.001, warmup_steps=100)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 399)]
    [1e-05, 0.001, 0.0005]
    """

    def __init__(
        self,
        peak_learning_rate: float,
        warmup_steps: int,
        total_steps: int | None = None,
        decay_steps: int | None = None,
        name: str = "inverse_square_root_schedule",
    ) -> None:
        super().__init__()
        check_positive_number(peak_learning_rate=peak_learning_rate)
        check_positive_integer("warmup_steps", warmup_steps)
        for argument, steps in (("total_steps", total_steps), ("decay_steps", decay_steps)):
            if steps is not None:
                check_positive_integer(argument, steps)
        if (total_steps is None) != (decay_steps is None) or (
            total_steps is not None
            and decay_steps is not None
            and not 1 <= decay_steps <= total_steps
        ):
            raise ValueError(
                "Expected both total_steps and decay_steps, with decay_steps from 1 to "
                f"total_steps, or neither. Received: total_steps={total_steps}, "
                f"decay_steps={decay_steps}. Pass both, or omit both."
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.decay_steps = decay_steps
        self.name = name

    @classmethod
    def noam(cls, model_dim: int, warmup_steps: int, scale: float = 1.0, **kwargs: Any) -> Self:
        """Returns the schedule from Vaswani et al.

            learning_rate = scale * d^-0.5 * min(s^-0.5, s * w^-1.5),    s = step + 1

        Args:
            model_dim: Int, model width d.
            warmup_steps: Int, number w of warmup steps.
            scale: Float, rate factor. Defaults to `1.0`.
            **kwargs: Further arguments of the class.
        """
        return cls(scale / math.sqrt(model_dim * warmup_steps), warmup_steps, **kwargs)

    def __call__(self, step: int | Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        progress = (step + 1.0) / self.warmup_steps
        learning_rate = self.peak_learning_rate * ops.minimum(progress, ops.rsqrt(progress))
        if self.total_steps is not None:
            remaining = (self.total_steps - step) / self.decay_steps
            learning_rate = learning_rate * ops.clip(remaining, 0.0, 1.0)
        return learning_rate

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "decay_steps": self.decay_steps,
            "name": self.name,
        }
