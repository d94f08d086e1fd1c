import math
from typing import Any, Self

import keras
from keras import ops

from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to a peak, then falls with the inverse square root of the step.

    With `s = step + 1` and `w = warmup_steps`:

        learning_rate = peak * min(s / w, sqrt(w / s))

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3, where the peak follows from
    the width of the model: see `noam`. With `total_steps` and `decay_steps` the rate is also
    multiplied by `(total_steps - step) / decay_steps` during the last `decay_steps`, so that it
    ends near 0; short trainings profit from it.

    Args:
        peak_learning_rate: float > 0, reached at step `warmup_steps`.
        warmup_steps: int >= 1, steps of the rise.
        total_steps: optional int, steps of the whole training. The rate is 0 from there on.
        decay_steps: optional int in `[1, total_steps]`, steps of the final decay. Given together
            with `total_steps` or not at all.
        name: string.

    Raises:
        ValueError: an argument is out of its range, or one of the last two is given alone.

    Example:

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
        if not peak_learning_rate > 0:
            raise ValueError(
                "Expected a peak_learning_rate above 0. "
                f"Received: peak_learning_rate={peak_learning_rate}"
            )
        if warmup_steps < 1:
            raise ValueError(
                f"Expected warmup_steps of at least 1. Received: warmup_steps={warmup_steps}"
            )
        if (total_steps is None) != (decay_steps is None) or (
            total_steps is not None
            and decay_steps is not None
            and not 1 <= decay_steps <= total_steps
        ):
            raise ValueError(
                "Expected total_steps together with decay_steps from 1 to total_steps, or neither. "
                f"Received: total_steps={total_steps}, decay_steps={decay_steps}"
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.decay_steps = decay_steps
        self.name = name

    @classmethod
    def noam(cls, model_dim: int, warmup_steps: int, scale: float = 1.0, **kwargs: Any) -> Self:
        """The schedule of Vaswani et al. 2017: `scale * d^-0.5 * min(s^-0.5, s * w^-1.5)`.

        Args:
            model_dim: int `d`, width of the model.
            warmup_steps: int `w`.
            scale: float. Default 1.
            **kwargs: the other arguments of the class.
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
