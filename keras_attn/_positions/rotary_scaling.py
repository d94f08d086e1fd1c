"""Scaled rotary position frequencies, for texts longer than the training texts."""

import abc
import dataclasses
import math
import numbers
from typing import Any

import keras
import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer


class RotaryScaling(abc.ABC):
    """Changes the frequencies of `RotaryPositions`. The result does not depend on the text."""

    @abc.abstractmethod
    def scale(self, frequencies: np.ndarray, max_wavelength: float) -> np.ndarray:
        """Returns the scaled frequencies.

        Args:
            frequencies: Float array of shape `(head_dim / 2,)`, radians per position, from the
                largest to the smallest.
            max_wavelength: Float, base of the frequencies.

        Returns:
            Float array with the same shape.
        """

    @property
    def magnitude(self) -> float:
        """Float, factor for rotated queries and keys."""
        return 1.0

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "RotaryScaling":
        """Returns a new object with the arguments from `get_config`."""
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attn")
@dataclasses.dataclass(frozen=True)
class LinearRotaryScaling(RotaryScaling):
    """Divides all frequencies by a factor, so that positions are interpolated.

        theta'[i] = theta[i] / factor

    Introduced as position interpolation by [Chen et al., 2023](https://arxiv.org/abs/2306.15595),
    equation 4. transformers calls it `rope_type="linear"`.

    Args:
        factor: Positive float, ratio of new to original length.

    Raises:
        ValueError: If the factor is not a positive number.

    Example:

    >>> from keras_attn import LinearRotaryScaling
    >>> LinearRotaryScaling(factor=2.0).factor
    2.0
    """

    factor: float

    def __post_init__(self) -> None:
        _check_positive(self, "factor")

    def scale(self, frequencies: np.ndarray, max_wavelength: float) -> np.ndarray:
        return frequencies / self.factor


@keras.saving.register_keras_serializable(package="keras_attn")
@dataclasses.dataclass(frozen=True)
class Llama3RotaryScaling(RotaryScaling):
    """Divides small frequencies by a factor, and interpolates between small and large ones.

    With n[i] = original_length theta[i] / (2 pi), the number of rotations within the original
    length,

        s[i] = clip((n[i] - low) / (high - low), 0, 1)
        theta'[i] = s[i] theta[i] + (1 - s[i]) theta[i] / factor

    Introduced with [Llama 3.1](https://arxiv.org/abs/2407.21783). transformers calls it
    `rope_type="llama3"`.

    Args:
        factor: Positive float, divisor for small frequencies.
        low_frequency_factor: Positive float, `low`: frequencies with fewer rotations are divided.
            Defaults to `1.0`.
        high_frequency_factor: Float above `low_frequency_factor`, `high`: frequencies with more
            rotations are not changed. Defaults to `4.0`.
        original_length: Positive int, original training length in tokens. Defaults to `8192`.

    Raises:
        ValueError: If an argument is not positive, or `high_frequency_factor` is not above
            `low_frequency_factor`.

    Example:

    >>> from keras_attn import Llama3RotaryScaling
    >>> Llama3RotaryScaling(factor=8.0).original_length
    8192
    """

    factor: float
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_length: int = 8192

    def __post_init__(self) -> None:
        names = ("factor", "low_frequency_factor", "high_frequency_factor")
        _check_positive(self, *names)
        check_positive_integer("original_length", self.original_length)
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ValueError(
                "Expected high_frequency_factor above low_frequency_factor="
                f"{self.low_frequency_factor}. Received: high_frequency_factor="
                f"{self.high_frequency_factor}."
            )

    def scale(self, frequencies: np.ndarray, max_wavelength: float) -> np.ndarray:
        rotations = self.original_length * frequencies / (2 * math.pi)  # (d/2,)
        width = self.high_frequency_factor - self.low_frequency_factor
        kept = np.clip((rotations - self.low_frequency_factor) / width, 0.0, 1.0)
        return kept * frequencies + (1 - kept) * frequencies / self.factor


@keras.saving.register_keras_serializable(package="keras_attn")
@dataclasses.dataclass(frozen=True)
class YarnRotaryScaling(RotaryScaling):
    """YaRN: divides small frequencies by a factor, and scales queries and keys.

    The feature pair that rotates n times within the original length L has the index

        c(n) = d log(L / (2 pi n)) / (2 log(max_wavelength))

    Frequencies before c(beta_fast) are kept, those after c(beta_slow) are divided by the factor,
    and those between are interpolated by their index:

        r[i] = clip((i - c(beta_fast)) / (c(beta_slow) - c(beta_fast)), 0, 1)
        theta'[i] = (1 - r[i]) theta[i] + r[i] theta[i] / factor

    Rotated queries and keys are multiplied by the magnitude 0.1 log(factor) + 1. Introduced by
    [Peng et al., 2023](https://arxiv.org/abs/2309.00071), section 3.4. transformers calls it
    `rope_type="yarn"`.

    Args:
        factor: Positive float, ratio of new to original length.
        original_length: Positive int, original training length in tokens.
        beta_fast: Positive float. Defaults to `32.0`.
        beta_slow: Positive float. Defaults to `1.0`.
        truncate: Bool, whether c(beta_fast) is rounded down and c(beta_slow) up. Defaults to
            `True`.
        attention_factor: Positive float, the magnitude. Defaults to `None`: computed from the
            factor, and 1 for factors up to 1.

    Raises:
        ValueError: If an argument is not positive.

    Example:

    >>> from keras_attn import YarnRotaryScaling
    >>> scaling = YarnRotaryScaling(factor=4.0, original_length=32768)
    >>> round(scaling.magnitude, 4)
    1.1386
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "factor", "beta_fast", "beta_slow")
        check_positive_integer("original_length", self.original_length)
        if self.attention_factor is not None:
            _check_positive(self, "attention_factor")

    @property
    def magnitude(self) -> float:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        return 0.1 * math.log(max(1.0, self.factor)) + 1.0

    def scale(self, frequencies: np.ndarray, max_wavelength: float) -> np.ndarray:
        features = 2 * len(frequencies)

        def pair(rotations):
            ratio = self.original_length / (2 * math.pi * rotations)
            return features * math.log(ratio) / (2 * math.log(max_wavelength))

        first, last = pair(self.beta_fast), pair(self.beta_slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, features - 1)
        width = last - first if last != first else 0.001
        divided = np.clip((np.arange(len(frequencies)) - first) / width, 0.0, 1.0)  # (d/2,)
        return (1 - divided) * frequencies + divided * frequencies / self.factor


def _check_positive(scaling, *names):
    for name in names:
        value = getattr(scaling, name)
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not 0 < float(value) < math.inf:
            raise ValueError(
                f"Expected {name} to be a positive number. Received: {name}={value!r}."
            )
