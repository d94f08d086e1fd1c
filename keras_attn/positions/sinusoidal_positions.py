from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._layer.argument_checks import check_sequence_shape
from keras_attn._layer.layer import Layer
from keras_attn._types import StaticShape, Tensor
from keras_attn.masks import wide_dtype
from keras_attn.positions.position_range import position_range


@keras.saving.register_keras_serializable(package="keras_attn")
class SinusoidalPositions(Layer):
    """Adds sines and cosines of the position, without weights and for any length.

    With D features, for position t:

        "interleaved"   e[t, 2i] = sin(t / L^(2i/D)),  e[t, 2i+1] = cos(t / L^(2i/D))
        "halves"        e[t, i] = sin(t / L^(i/(D/2-1))),  e[t, D/2+i] = cos(t / L^(i/(D/2-1)))

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.5, as
    `"interleaved"`. Their own implementation, tensor2tensor, has all sines before all cosines and
    other exponents, so that the last wavelength is exactly 2 pi L: `"halves"`, which fairseq and
    OpenNMT took over.

    The encoding is computed in float32 and cast to the compute dtype; under float64 it is computed
    in it.

    Args:
        layout: `"interleaved"` or `"halves"`. Default `"interleaved"`.
        max_wavelength: positive float L, the longest wavelength in positions, divided by 2 pi.
            Default 10000.0.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(batch, time, features)`.
        start_index: int, int32 scalar or int32 `(batch,)`, the position of the first column.
            Default 0.

    Returns:
        `inputs` plus the encoding, `(batch, time, features)`.

    Masking:
        An implicit mask is passed on unchanged.

    Raises:
        ValueError: if `layout` is unknown, if `max_wavelength` is not positive, if `inputs` is not
            of rank 3, or if `features` is odd or below 4 for `"halves"`.

    Example:

    >>> layer = SinusoidalPositions()
    >>> ops.convert_to_numpy(layer(np.zeros((1, 2, 4), "float32")))[0].round(3).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(
        self, layout: str = "interleaved", max_wavelength: float = 10000.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("interleaved", "halves"):
            raise ValueError(
                f'layout must be "interleaved" or "halves". Received: layout={layout!r}.'
            )
        if not max_wavelength > 0:
            raise ValueError(
                f"max_wavelength must be positive. Received: max_wavelength={max_wavelength}."
            )
        self.layout = layout
        self.max_wavelength = max_wavelength
        self.supports_masking = True

    def build(self, inputs_shape: StaticShape) -> None:
        check_sequence_shape("inputs", inputs_shape)
        features = inputs_shape[-1]
        if self.layout == "halves":
            if features % 2 or features < 4:
                raise ValueError(
                    'layout="halves" needs an even number of features, at least 4. '
                    f'Received: features={features}. Use layout="interleaved".'
                )
            exponents = np.arange(features // 2) / (features // 2 - 1)
        else:
            exponents = np.arange(0, features, 2) / features
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: features})
        frequencies = self.max_wavelength**-exponents
        self.frequencies = frequencies.astype(wide_dtype(self.compute_dtype))  # (ceil(D/2),)

    def call(self, inputs: Tensor, start_index: int | Tensor = 0) -> Tensor:
        positions = position_range(ops.shape(inputs)[1], start_index)  # (1 or B, T)
        angles = ops.cast(positions, wide_dtype(self.compute_dtype))
        angles = ops.expand_dims(angles, 2) * self.frequencies  # (1 or B, T, ceil(D/2))
        encoding = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
        if self.layout == "interleaved":
            encoding = ops.take(encoding, _interleaved(inputs.shape[-1]), axis=-1)  # (1 or B, T, D)
        return inputs + ops.cast(encoding, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: StaticShape) -> tuple[int | None, ...]:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "layout": self.layout,
            "max_wavelength": self.max_wavelength,
        }


def _interleaved(features):
    """Where each feature is among all sines and then all cosines; an odd number ends in a sine."""
    sines = (features + 1) // 2
    return np.arange(2 * sines).reshape(2, sines).T.reshape(-1)[:features]
