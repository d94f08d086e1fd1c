from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._backend.float64 import cos, sin
from keras_attn._layer.argument_checks import check_positive_number
from keras_attn._layer.layer import Layer
from keras_attn._masks import wide_dtype
from keras_attn._positions.position_range import position_range
from keras_attn._positions.rotary_scaling import RotaryScaling
from keras_attn._types import StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RotaryPositions(Layer):
    """Rotary position embedding (RoPE) for queries or keys.

    The features (a, b) in pair i at position t are rotated by the angle t theta_i. Here theta_i =
    L^(-2i/d), L is `max_wavelength`, and d is the number of features per head:

        y[a] = x[a] cos(t theta_i) - x[b] sin(t theta_i)
        y[b] = x[b] cos(t theta_i) + x[a] sin(t theta_i)

    The pair is (a, b) = (2i, 2i + 1) for `"interleaved"`, and (i, i + d/2) for `"halves"`. The dot
    product of a rotated query and a rotated key depends only on the difference between their
    positions.

    Rotary positions were introduced by [Su et al., 2021](https://arxiv.org/abs/2104.09864),
    equation 34. The paper and GPT-J use `"interleaved"`. GPT-NeoX and LLaMA use `"halves"`.

    The angles, sines and cosines are computed in float32 (in float64 for a float64 layer), and then
    cast to the compute dtype.

    Args:
        max_wavelength: Positive float, frequency base L. Defaults to `10000.0`.
        layout: String, `"halves"` or `"interleaved"`. Defaults to `"halves"`.
        scaling: `LinearRotaryScaling`, `Llama3RotaryScaling` or `YarnRotaryScaling`, which changes
            the frequencies for long texts. Defaults to `None`: the frequencies in the equation.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        heads: Tensor of shape `(batch, heads, time, head_dim)`, queries or keys.
        start_index: Int, scalar int32 tensor or int32 tensor of shape `(batch,)`, position of the
            first time step. Defaults to `0`.

    Returns:
        Rotated queries or keys, `(batch, heads, time, head_dim)`.

    Masking:
        The layer does not use masks, because it rotates each position separately.

    Raises:
        ValueError: If `layout` or `scaling` is unknown, `max_wavelength` is not positive, the rank
            of `heads` is not 4, or `head_dim` is odd.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import RotaryPositions
    >>> heads = np.ones((1, 1, 2, 2), "float32")
    >>> ops.convert_to_numpy(RotaryPositions()(heads)).round(3)[0, 0].tolist()[0]
    [1.0, 1.0]
    """

    def __init__(
        self,
        max_wavelength: float = 10000.0,
        layout: str = "halves",
        *,
        scaling: RotaryScaling | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("halves", "interleaved"):
            raise ValueError(
                f'Expected layout to be "halves" or "interleaved". Received: layout={layout!r}.'
            )
        check_positive_number(max_wavelength=max_wavelength)
        if scaling is not None and not isinstance(scaling, RotaryScaling):
            raise ValueError(
                "Expected scaling to be a LinearRotaryScaling, Llama3RotaryScaling or "
                f"YarnRotaryScaling. Received: scaling={scaling!r}."
            )
        self.max_wavelength = max_wavelength
        self.scaling = scaling
        self.layout = layout

    def build(self, heads_shape: StaticShape) -> None:
        if len(heads_shape) != 4:
            raise ValueError(
                "Expected heads of shape (batch, heads, time, head_dim). "
                f"Received: heads with shape {tuple(heads_shape)}."
            )
        head_dim = heads_shape[-1]
        if head_dim % 2:
            raise ValueError(
                "Expected an even head_dim, because pairs of features are rotated. "
                f"Received: head_dim={head_dim}."
            )
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: head_dim})
        frequencies = self.max_wavelength ** -(np.arange(0, head_dim, 2) / head_dim)  # (d/2,)
        if self.scaling is not None:
            frequencies = self.scaling.scale(frequencies, self.max_wavelength)
        # Negate the frequency of each pair's first feature, so that sin(-x) = -sin(x) has the sign
        # in the equation. cos(-x) = cos(x) does not change.
        signed = np.stack([-frequencies, frequencies])  # (2, d/2)
        if self.layout == "interleaved":
            signed = signed.T
        self.frequencies = signed.reshape(-1).astype(wide_dtype(self.compute_dtype))  # (d,)

    def call(self, heads: Tensor, start_index: int | Tensor = 0) -> Tensor:
        positions = position_range(ops.shape(heads)[2], start_index)  # (1 or B, T)
        angles = ops.cast(positions, wide_dtype(self.compute_dtype))
        frequencies = ops.convert_to_tensor(self.frequencies)
        angles = ops.expand_dims(angles, (1, 3)) * frequencies  # (1 or B, 1, T, d)
        cosines, sines = cos(angles), sin(angles)  # (1 or B, 1, T, d) each
        magnitude = 1.0 if self.scaling is None else self.scaling.magnitude
        if magnitude != 1:
            cosines, sines = cosines * magnitude, sines * magnitude
        cosines = ops.cast(cosines, self.compute_dtype)
        sines = ops.cast(sines, self.compute_dtype)
        return heads * cosines + self._partners(heads) * sines

    def _partners(self, heads):
        """Exchanges the two features in each pair."""
        if self.layout == "halves":
            first, second = ops.split(heads, 2, axis=-1)  # (B, H, T, d/2) each
            return ops.concatenate([second, first], axis=-1)  # (B, H, T, d)
        exchanged = np.arange(heads.shape[-1]).reshape(-1, 2)[:, ::-1].reshape(-1)  # 1, 0, 3, 2 ...
        return ops.take(heads, exchanged, axis=-1)  # (B, H, T, d)

    def compute_output_shape(self, heads_shape: StaticShape) -> tuple[int | None, ...]:
        return heads_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "layout": self.layout,
            "scaling": keras.saving.serialize_keras_object(self.scaling),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "RotaryPositions":
        # Files from earlier versions lack the key "scaling".
        scaling = keras.saving.deserialize_keras_object(config.get("scaling"))
        return cls(**{**config, "scaling": scaling})
