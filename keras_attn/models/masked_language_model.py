from typing import Any, cast

import keras

from keras_attn.models.functional_model import functional_model
from keras_attn.output_layers.tied_mlm_head import TiedMLMHead


def masked_language_model(
    encoder: keras.layers.Layer, name: str = "masked_language_model"
) -> keras.Model:
    """Predicts the tokens of a sentence that were hidden from it, from both sides.

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
        vocabulary)`.

    Raises:
        ValueError: if the output cannot be tied to the embedding of the encoder.
    """
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    outputs = encoder(token_ids)["encoder_outputs"]
    logits = TiedMLMHead(cast(Any, getattr(encoder, "embedding", None)), name="logits")(outputs)
    return functional_model(token_ids, logits, name)
