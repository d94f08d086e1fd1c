import keras

from keras_attn import masks
from keras_attn._layer.layer import Layer


@keras.saving.register_keras_serializable(package="keras_attn")
class PromptEncoder(Layer):
    """The encoder of a model of a language model: passes prompts to it without weights.

    `GenerationModel(None, search)` creates one. The language model itself reads the prompt, once,
    before the first step.

    Args:
        vocabulary_size: int, number of ids. Defaults to `None`, for unknown.
        pad_token_id: int, the id of padding. Defaults to 0.
        source_start: bool, whether a prompt that is text begins with the start token. No end token
            follows it. Defaults to `False`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: int32 `(batch, prompt)`: a prompt in each row, then padding.

    Returns:
        Dict of `encoder_outputs`, the ids themselves, and boolean `encoder_mask` `(batch, prompt)`,
        True = not padding.

    Masking:
        Padding must be on the right. A prompt of nothing but padding is an empty one.

    Example:

    >>> import numpy as np
    >>> encoded = PromptEncoder()(np.array([[5, 6, 7], [8, 0, 0]]))
    >>> np.array(encoded["encoder_mask"]).tolist()
    [[True, True, True], [True, False, False]]
    """

    source_end = False
    """Whether a source that was text ends with the end token: no, it is continued."""

    is_container = True

    def __init__(self, vocabulary_size=None, pad_token_id=0, source_start=False, **kwargs):
        kwargs.setdefault("autocast", False)  # ids given as floats would be rounded
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.pad_token_id = pad_token_id
        self.source_start = source_start

    def call(self, token_ids):
        return {
            "encoder_outputs": token_ids,
            "encoder_mask": masks.padding_mask(token_ids, self.pad_token_id),
        }

    def compute_mask(self, inputs, previous_mask):
        return None  # the mask is one of the outputs

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "pad_token_id": self.pad_token_id,
            "source_start": self.source_start,
        }
