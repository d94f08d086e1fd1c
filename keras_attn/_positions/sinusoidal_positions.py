from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._backend.float64 import cos, sin
from keras_attn._layer.argument_checks import (
    check_positive_number,
    check_sequence_shape,
)
from keras_attn._layer.layer import Layer
from keras_attn._masks import wide_dtype
from keras_attn._positions.position_range import check_offset, position_range
from keras_attn._types import StaticShape, Tensor

LAYOUTS = ("interleaved", "halves", "marian")


@keras.saving.register_keras_serializable(package="keras_attn")
class SinusoidalPositions(Layer):
    """Adds a sinusoidal position encoding.

    Here t is the position plus `offset`, D is the number of features, and L is `max_wavelength`:

        "interleaved"   e[t, 2i] = sin(t / L^(2i/D)),  e[t, 2i+1] = cos(t / L^(2i/D))
        "halves"        e[t, i] = sin(t / L^(i/(D/2-1))),  e[t, D/2+i] = cos(t / L^(i/(D/2-1)))
        "marian"        e[t, i] = sin(t / L^(2i/D)),  e[t, D/2+i] = cos(t / L^(2i/D))

    The encoding was introduced in section 3.5 of [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), with the layout `"interleaved"`. The authors'
    implementation in tensor2tensor, fairseq and OpenNMT use `"halves"`: all sines come before all
    cosines, and the last wavelength is exactly 2 pi L. `"marian"` combines the order of `"halves"`
    with the wavelengths of `"interleaved"`. Hugging Face's transformers uses `"marian"` for Marian
    and Pegasus.

    The layer has no weights and no maximum length. The encoding is computed in float32 (in float64
    for a float64 layer), and then cast to the compute dtype.

    Args:
        layout: String, `"interleaved"`, `"halves"` or `"marian"`. Defaults to `"interleaved"`.
        max_wavelength: Positive float L, the longest wavelength in positions, divided by 2 pi.
            Defaults to `10000.0`.
        offset: Int >= 0, number added to each position: 1 in OpenNMT-tf, 2 in fairseq,
            M2M100 and NLLB. Defaults to `0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, time, features)`.
        start_index: Int, scalar int32 tensor or int32 tensor of shape `(batch,)`, position of the
            first time step. Defaults to `0`.

    Returns:
        `inputs` plus the encoding, `(batch, time, features)`.

    Masking:
        The output keeps the implicit mask of `inputs`.

    Raises:
        ValueError: If `layout` is unknown, `max_wavelength` is not positive, `offset` is not an
            integer of at least 0, the rank of `inputs` is not 3, `features` is odd for `"halves"`
            or `"marian"`, or `features` is less than 4 for `"halves"`.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import SinusoidalPositions
    >>> layer = SinusoidalPositions()
    >>> ops.convert_to_numpy(layer(np.zeros((1, 2, 4), "float32")))[0].round(3).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(
        self,
        layout: str = "interleaved",
        max_wavelength: float = 10000.0,
        *,
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in LAYOUTS:
            raise ValueError(
                f"Expected layout to be one of {LAYOUTS}. Received: layout={layout!r}."
            )
        check_offset(offset)
        check_positive_number(max_wavelength=max_wavelength)
        self.layout = layout
        self.max_wavelength = max_wavelength
        self.offset = offset
        self.supports_masking = True

    def build(self, inputs_shape: StaticShape) -> None:
        check_sequence_shape("inputs", inputs_shape)
        features = inputs_shape[-1]
        if self.layout == "halves":
            if features % 2 or features < 4:
                raise ValueError(
                    'Expected an even number of features >= 4 for layout="halves". '
                    f'Received: features={features}. Use layout="interleaved".'
                )
            exponents = np.arange(features // 2) / (features // 2 - 1)
        elif self.layout == "marian" and features % 2:
            raise ValueError(
                'Expected an even number of features for layout="marian". Received: '
                f'features={features}. Use layout="interleaved".'
            )
        else:
            exponents = np.arange(0, features, 2) / features
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: features})
        frequencies = self.max_wavelength**-exponents
        self.frequencies = frequencies.astype(wide_dtype(self.compute_dtype))  # (ceil(D/2),)

    def call(self, inputs: Tensor, start_index: int | Tensor = 0) -> Tensor:
        if self.offset:
            start_index = start_index + self.offset
        positions = position_range(ops.shape(inputs)[1], start_index)  # (1 or B, T)
        angles = ops.cast(positions, wide_dtype(self.compute_dtype))
        frequencies = ops.convert_to_tensor(self.frequencies)
        angles = ops.expand_dims(angles, 2) * frequencies  # (1 or B, T, ceil(D/2))
        encoding = ops.concatenate([sin(angles), cos(angles)], axis=-1)
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
            "offset": self.offset,
        }


def _interleaved(features):
    """Returns indices that interleave sines and cosines.

    Args:
        features: Int, number of features. If it is odd, the last feature is a sine.

    Returns:
        Int array of shape `(features,)`, indices into the concatenation `[sines, cosines]`.
    """
    sines = (features + 1) // 2
    return np.arange(2 * sines).reshape(2, sines).T.reshape(-1)[:features]
