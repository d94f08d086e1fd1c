from typing import Any, cast

import keras

from keras_attn._types import Tensor
from keras_attn.models.fused_loss_model import FusedLossModel
from keras_attn.models.model_inputs import call_encoder
from keras_attn.models.model_of_parts import accepts_cloned_graph, encode
from keras_attn.output_layers.tied_mlm_head import TiedMLMHead


def masked_language_model(
    encoder: keras.layers.Layer, name: str = "masked_language_model"
) -> keras.Model:
    """Returns a model that predicts hidden tokens of a sentence from the tokens on both sides.

        logits = E norm(gelu(W x + b)) + c, for the outputs x and the embeddings E of the encoder

    Introduced by [Devlin et al., 2019](https://arxiv.org/abs/1810.04805) (BERT), section 3.1. The
    inputs and labels are those of `keras_attn.text.mask_tokens`; train it with
    `keras_attn.training.compile_for_training(model, label_smoothing=0.0)`, for which label 0 is no
    token. What it has learned is in the encoder, which a `sequence_classifier` then shares.

    Args:
        encoder: layer that returns `encoder_outputs`, with a `keras.layers.ReversibleEmbedding` as
            its `embedding`, such as `TransformerEncoder`.
        name: str.

    Returns:
        Functional model from `token_ids` int32 `(batch, time)` to float32 logits `(batch, time,
        vocabulary)`, with the attributes `encoder` and `head`. With a fused loss a training step
        does not compute the logits, see `keras_attn.training.SequenceCrossentropy`.

    Raises:
        ValueError: if the output cannot be tied to the embedding of the encoder.
    """
    return MaskedLanguageModel(
        encoder,
        TiedMLMHead(cast(Any, getattr(encoder, "embedding", None)), name="logits"),
        name=name,
    )


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedLanguageModel(FusedLossModel):
    """The model of `masked_language_model`.

    Args:
        encoder: layer that returns `encoder_outputs`.
        head: `TiedMLMHead` of the embedding of the encoder.
        inputs: `keras.Input` of ids. Defaults to `token_ids`, int32 `(batch, time)`.
        name: str.
    """

    PARTS = ("encoder", "head")

    @accepts_cloned_graph
    def __init__(
        self,
        encoder: keras.layers.Layer,
        head: TiedMLMHead,
        inputs: Any = None,
        name: str = "masked_language_model",
    ) -> None:
        if inputs is None:
            inputs = keras.Input((None,), dtype="int32", name="token_ids")
        super().__init__(inputs, head(encode(encoder, inputs)["encoder_outputs"]), name)
        self.encoder = encoder
        self.head = head

    @property
    def source(self) -> Any:
        return self.input

    @property
    def output_layer(self) -> Any:
        return self.head.embedding

    @property
    def output_bias(self) -> Any:
        return self.head.bias

    def compute_features(self, inputs: dict[str, Tensor]) -> Tensor:
        (token_ids,) = inputs.values()
        outputs = call_encoder(self.encoder, token_ids)["encoder_outputs"]
        return self.head(outputs, return_features=True)

    @classmethod
    def parts_of_graph(cls, inputs: Any, layers: list[keras.layers.Layer]) -> dict[str, Any]:
        encoder, head = layers
        return {"encoder": encoder, "head": head, "inputs": inputs}
