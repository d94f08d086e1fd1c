from typing import Any

import keras

from keras_attn import _masks as masks
from keras_attn._layer.argument_checks import (
    check_optional_token_ids,
    check_token_ids,
)
from keras_attn._layer.layer import Layer
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn", name="PromptEncoder")
class PromptInput(Layer):
    """Replaces an encoder: passes prompt ids to a causal language model.

    The layer has no weights. The language model processes the prompt once before the first search
    step.

    Args:
        vocabulary_size: Positive int, number of ids. It is required for ONNX export. Defaults to
            `None`: unknown.
        pad_token_id: Int, id for padding on the right of prompts. Before another token, it is an
            ordinary token. Defaults to `0`.
        start_token_id: Int, start token for prompts, or `None` for no start token. Use the start
            token in the training data. `GenerationModel.generate` and exported files insert it when
            they tokenize a prompt. The layer itself does not insert it. Defaults
            to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, prompt)`, with padding on the right. A negative id
            ends a prompt whose last token is `pad_token_id`.

    Returns:
        Dict with two tensors of shape `(batch, prompt)`. `encoder_outputs` is `token_ids`, with 0
        in place of negative ids. `encoder_mask` is boolean, and `False` at padding.

    Masking:
        Padding must be on the right. A row that contains only padding is an empty prompt.

    Example:

    >>> import numpy as np
    >>> encoded = PromptInput()(np.array([[5, 6, 7], [8, 0, 0]]))
    >>> np.array(encoded["encoder_mask"]).tolist()
    [[True, True, True], [True, False, False]]
    """

    end_token_id = None
    """`None`, so that no end token is appended to a prompt."""

    masks_only_trailing_padding = True
    """Bool. `True`: only padding on the right of a row is masked, so the padding id is an ordinary
    token before other tokens, and a negative id ends a row whose last token is the padding id. An
    encoder that masks the padding id everywhere lacks this attribute.
    """

    is_container = True

    def __init__(
        self,
        vocabulary_size: int | None = None,
        pad_token_id: int = 0,
        *,
        start_token_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round large ids
        super().__init__(**kwargs)
        self.supports_masking = True
        check_token_ids(pad_token_id=pad_token_id)
        check_optional_token_ids(start_token_id=start_token_id)
        self.vocabulary_size = vocabulary_size
        self.pad_token_id = pad_token_id
        self.start_token_id = start_token_id

    def call(self, token_ids: Tensor) -> dict[str, Any]:
        return {
            "encoder_outputs": masks.embeddable_ids(token_ids),
            "encoder_mask": masks.padding_mask(token_ids, self.pad_token_id),
        }

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the mask is one of the outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "pad_token_id": self.pad_token_id,
            "start_token_id": self.start_token_id,
        }
