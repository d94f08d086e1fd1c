import inspect

import keras

from keras_attn._layer.argument_checks import list_of_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared


@keras.saving.register_keras_serializable(package="keras_attn")
class EnsembleEncoder(Layer):
    """Several encoders of one source, each for a decoder of its own in an `EnsembleDecoder`.

    Args:
        encoders: list of layers that turn a source into the keyword arguments of a decoder, all of
            one source vocabulary, in the order of the decoders.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: what each encoder reads, int32 ids `(batch, source)` or features.
        mask: boolean `(batch, source)`, the implicit mask of `inputs`, passed by Keras or a
            wrapper. It is passed to the encoders that have such an argument.

    Returns:
        Dict of what the encoders return, `encoder_outputs`, `encoder_mask` and, where there is one,
        `encoder_state`: each a dict from `"0"`, `"1"`, ..., the place in `encoders`, to the value
        of that encoder.

    Masking: that of each encoder.

    Raises:
        ValueError: for no encoders, or encoders that do not agree on what they read.

    Example:

    >>> import numpy as np
    >>> from keras_attn import transformer_tiny
    >>> encoders = [transformer_tiny(20, 30, seed=seed)[0] for seed in (1, 2)]
    >>> encoded = EnsembleEncoder(encoders)(np.array([[5, 6, 7, 2]]))
    >>> {name: tuple(outputs.shape) for name, outputs in encoded["encoder_outputs"].items()}
    {'0': (1, 4, 128), '1': (1, 4, 128)}
    """

    is_container = True

    def __init__(self, encoders, **kwargs):
        kwargs.setdefault("autocast", False)  # each encoder has a precision of its own
        super().__init__(**kwargs)
        self.supports_masking = True
        self.encoders = list_of_layers("encoders", encoders, keras.layers.Layer)
        sizes = {get_vocabulary_size(encoder) for encoder in self.encoders} - {None}
        self.vocabulary_size = _agreed("vocabulary_size", sorted(sizes) or [None])
        self.pad_token_id = self._shared("pad_token_id", 0)
        self.source_start = self._shared("source_start", False)
        self.source_end = self._shared("source_end", True)

    def _shared(self, name, default):
        return _agreed(name, [getattr(encoder, name, default) for encoder in self.encoders])

    def build(self, inputs_shape):
        for encoder in self.encoders:
            ensure_built(encoder, inputs_shape)

    def call(self, inputs, mask=None):
        outputs = {}
        for place, encoder in enumerate(self.encoders):
            takes_mask = "mask" in inspect.signature(encoder.call).parameters
            arguments = {} if mask is None or not takes_mask else {"mask": mask}
            for name, value in encoder(inputs, **arguments).items():
                if value is not None:
                    outputs.setdefault(name, {})[str(place)] = value
        return outputs

    @property
    def max_source_length(self):
        """int, most positions of a source that all encoders can read, or `None` for any number."""
        lengths = [getattr(encoder, "max_source_length", None) for encoder in self.encoders]
        return min((length for length in lengths if length is not None), default=None)

    def compute_mask(self, inputs, previous_mask):
        return None  # the masks are among the outputs

    def get_config(self):
        encoders = [serialize_shared(encoder) for encoder in self.encoders]
        return {**super().get_config(), "encoders": encoders}

    @classmethod
    def from_config(cls, config):
        encoders = [deserialize_shared(each) for each in config["encoders"]]
        return cls(**{**config, "encoders": encoders})


def _agreed(name, values):
    """The value that all encoders have."""
    first, *others = values
    if any(value != first for value in others):
        raise ValueError(
            f"Expected encoders that read the same, with one {name}. Received: encoders with "
            f"{[first, *others]}."
        )
    return first
