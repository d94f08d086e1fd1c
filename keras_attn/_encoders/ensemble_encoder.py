import inspect
from collections.abc import Iterable
from typing import Any, Self

import keras

from keras_attn._layer.argument_checks import list_of_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._layer.layer import Layer
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class EnsembleEncoder(Layer):
    """Runs several encoders on the same source, one for each decoder in an `EnsembleDecoder`.

    Args:
        encoders: List of encoders with the same source vocabulary, in decoder order.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Input for all encoders: int32 ids of shape `(batch, source)`, or features.
        mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `inputs`. Keras passes
            this argument. Encoders whose `call` takes `mask` receive it.

    Returns:
        Dict with the keys `encoder_outputs`, `encoder_mask`, and `encoder_state` if an encoder
        returns a state. Each value is a dict from encoder indices, `"0"`, `"1"`, ..., to results.

    Masking:
        Each encoder applies its own masking.

    Raises:
        ValueError: If `encoders` is empty, or their vocabularies or special tokens differ.

    Example:

    >>> import numpy as np
    >>> from keras_attn import EnsembleEncoder, transformer_tiny
    >>> encoders = [transformer_tiny(20, 30, seed=seed)[0] for seed in (1, 2)]
    >>> encoded = EnsembleEncoder(encoders)(np.array([[5, 6, 7, 2]]))
    >>> {name: tuple(outputs.shape) for name, outputs in encoded["encoder_outputs"].items()}
    {'0': (1, 4, 128), '1': (1, 4, 128)}
    """

    is_container = True

    def __init__(self, encoders: Iterable[keras.layers.Layer], **kwargs: Any) -> None:
        kwargs.setdefault("autocast", False)  # each encoder casts its inputs
        super().__init__(**kwargs)
        self.supports_masking = True
        self.encoders = list_of_layers("encoders", encoders, keras.layers.Layer)
        sizes = {get_vocabulary_size(encoder) for encoder in self.encoders} - {None}
        known_sizes = sorted(size for size in sizes if size is not None)
        self.vocabulary_size = _agreed("vocabulary_size", known_sizes or [None])
        self.pad_token_id = self._shared("pad_token_id", 0)
        self.start_token_id = self._shared("start_token_id", None)
        self.end_token_id = self._shared("end_token_id", None)

    def _shared(self, name, default):
        return _agreed(name, [getattr(encoder, name, default) for encoder in self.encoders])

    def build(self, inputs_shape: StaticShape) -> None:
        for encoder in self.encoders:
            ensure_built(encoder, inputs_shape)

    def call(self, inputs: Tensor, mask: Mask | None = None) -> dict[str, Any]:
        outputs = {}
        for place, encoder in enumerate(self.encoders):
            takes_mask = "mask" in inspect.signature(encoder.call).parameters
            arguments = {} if mask is None or not takes_mask else {"mask": mask}
            for name, value in encoder(inputs, **arguments).items():
                if value is not None:
                    outputs.setdefault(name, {})[str(place)] = value
        return outputs

    @property
    def max_source_length(self) -> int | Tensor | None:
        """Int, maximum source length that all encoders support, or `None` for no maximum."""
        lengths = [getattr(encoder, "max_source_length", None) for encoder in self.encoders]
        return min((length for length in lengths if length is not None), default=None)

    @property
    def masks_only_trailing_padding(self) -> bool:
        """Bool, see `TransformerEncoder`. `True` if it is true for all encoders."""
        name = "masks_only_trailing_padding"
        return all(getattr(encoder, name, False) for encoder in self.encoders)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the masks are among the outputs

    def get_config(self) -> dict[str, Any]:
        encoders = [serialize_shared(encoder) for encoder in self.encoders]
        return {**super().get_config(), "encoders": encoders}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        encoders = [deserialize_shared(part) for part in config["encoders"]]
        return cls(**{**config, "encoders": encoders})


def _agreed(name, values):
    """Returns the value shared by all encoders, or raises a `ValueError`."""
    first, *more_values = values
    if any(value != first for value in more_values):
        raise ValueError(
            f"Expected encoders with the same {name}. Received: encoders with "
            f"{name}={[first, *more_values]}."
        )
    return first
