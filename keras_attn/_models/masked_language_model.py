from typing import Any, cast

import keras

from keras_attn._models.fused_loss_model import FusedLossModel
from keras_attn._models.model_inputs import (
    SymbolicInputs,
    call_encoder,
    input_tensor,
    symbolic_inputs,
)
from keras_attn._models.model_of_parts import accepts_cloned_graph, encode
from keras_attn._output_layers.tied_mlm_head import TiedMLMHead
from keras_attn._types import Tensor


def masked_language_model(
    encoder: keras.layers.Layer, name: str = "masked_language_model"
) -> keras.Model:
    """Returns a model that predicts masked tokens from the tokens before and after them.

        logits = E norm(gelu(W x + b)) + c

    Here x is the encoder output at a position, and E is the encoder's embedding matrix; W, b and c
    are trainable. The model was introduced by [Devlin et al.,
    2019](https://arxiv.org/abs/1810.04805) (BERT), section 3.1.

    Create inputs and labels with `keras_attn.text.mask_tokens`. Compile the model with
    `keras_attn.training.compile_for_training(model, label_smoothing=0.0)`; the loss ignores
    positions with the label 0. After the pretraining, pass the encoder to `sequence_classifier` for
    fine-tuning.

    Args:
        encoder: Layer that returns a dict with `encoder_outputs` and has a
            `keras.layers.ReversibleEmbedding` as its `embedding`, such as `TransformerEncoder`.
        name: String, model name. Defaults to `"masked_language_model"`.

    Returns:
        Functional model that maps int32 `token_ids` `(batch, time)` to float32 logits `(batch,
        time, vocabulary)`. It has the attributes `encoder` and `head`. With a fused loss, a
        training step does not store all logits; see `keras_attn.training.SequenceCrossentropy`.

    Raises:
        ValueError: If the encoder's embedding is not a `keras.layers.ReversibleEmbedding`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import TransformerEncoder, TransformerEncoderBlock, masked_language_model
    >>> block = TransformerEncoderBlock(num_heads=2, intermediate_dim=16)
    >>> encoder = TransformerEncoder(block, keras.layers.ReversibleEmbedding(30, 8), num_layers=1)
    >>> model = masked_language_model(encoder)
    >>> tuple(model(np.array([[5, 3, 7, 2]])).shape)
    (1, 4, 30)
    """
    return MaskedLanguageModel(
        encoder,
        TiedMLMHead(cast(Any, getattr(encoder, "embedding", None)), name="logits"),
        name=name,
    )


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedLanguageModel(FusedLossModel):
    """Model that `masked_language_model` returns.

    Args:
        encoder: Layer that returns a dict with `encoder_outputs`.
        head: `TiedMLMHead` with the encoder's embedding.
        inputs: `keras.Input` for ids. Defaults to `token_ids`, int32 of shape `(batch, time)`.
        name: String, model name. Defaults to `"masked_language_model"`.
    """

    PARTS = ("encoder", "head")

    @accepts_cloned_graph
    def __init__(
        self,
        encoder: keras.layers.Layer,
        head: TiedMLMHead,
        *,
        inputs: keras.KerasTensor | None = None,
        name: str = "masked_language_model",
    ) -> None:
        if inputs is None:
            inputs = input_tensor("token_ids")
        super().__init__(inputs, head(encode(encoder, inputs)["encoder_outputs"]), name)
        self.encoder = encoder
        self.head = head

    @property
    def source(self) -> SymbolicInputs:
        return symbolic_inputs(self)

    @property
    def output_layer(self) -> keras.layers.Layer:
        return self.head.embedding

    @property
    def output_bias(self) -> keras.Variable | None:
        return self.head.bias

    def compute_features(self, inputs: dict[str, Tensor]) -> Tensor:
        (token_ids,) = inputs.values()
        outputs = call_encoder(self.encoder, token_ids)["encoder_outputs"]
        return self.head(outputs, return_features=True)

    @classmethod
    def parts_of_graph(
        cls, inputs: SymbolicInputs, layers: list[keras.layers.Layer]
    ) -> dict[str, object]:
        encoder, head = layers
        return {"encoder": encoder, "head": head, "inputs": inputs}
