from typing import Any, Self

import keras
from keras import ops

from keras_attn._decoders.composed_decoder import ComposedDecoder, common_vocabulary_size
from keras_attn._decoders.log_probs import IMPOSSIBLE, LARGEST_LOGIT
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.argument_checks import check_nonnegative_number
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Masks, Tensor, TensorDict

MODEL = "language_model"
"""Name of the language model among the members."""


@keras.saving.register_keras_serializable(package="keras_attn")
class FusedDecoder(ComposedDecoder):
    """Adds a language model's log probabilities to those of a decoder (shallow fusion).

        score(y_t) = log p(y_t | y_<t, x) + weight * log p_LM(y_t | y_<t)

    A language model is trained on text without translations, which is easier to collect than
    sentence pairs. Both models run at each search step, and the search adds up the scores. They are
    not normalized, so they are not the log probabilities of a distribution. Shallow fusion was
    introduced in section 4.1 of [Gulcehre et al., 2015](https://arxiv.org/abs/1503.03535). [Kannan
    et al., 2018](https://arxiv.org/abs/1712.01996) use it for speech recognition. Choose the weight
    on a validation set; usual values are 0.05 to 0.3.

    The language model reads the target tokens from the start token on, including a prefix, and not
    the source. Train it with the translator's target tokenizer, on sentences that begin with the
    search's start token and finish with its end token. If the decoder is a language model itself,
    both models continue the prompt.

    Searches treat the scores as follows:

    - The results `log_probs`, `token_log_probs` and `top_token_log_probs` contain scores.
    - `SamplingDecoder` draws tokens with probabilities proportional to `exp(score / temperature)`.
    - `repetition_penalty` applies to the scores. They are negative, so it multiplies the scores
      that belong to previous tokens.
    - A token is impossible if one model forbids it.

    An `EnsembleDecoder` normalizes its members' scores. To fuse a language model with an ensemble,
    pass the ensemble as `decoder`. To fuse several language models, nest the decoders.

    Args:
        decoder: `StepDecoder`, such as `TransformerDecoder` or `RNNDecoder`.
        language_model: `CausalLanguageModel`, or another `StepDecoder` with `reads_prompts=True`.
            Its vocabulary is the decoder's target vocabulary.
        weight: Non-negative float, the language model's weight.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`, or the nested tensors that the
            decoder accepts.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. Defaults to `None`: all positions.
        encoder_state: Nested lists of tensors, the encoder's final state. Defaults to `None`.
        query_features: Tensor of shape `(batch, features)`, for decoders that need it. Defaults to
            `None`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument. The decoder combines `encoder_mask` and
            `encoder_outputs_mask`.

    Returns:
        Float32 scores of shape `(batch, target, vocabulary)`: at each position, the scores of the
        next token.

    Masking:
        The decoder applies its own masking.

    Raises:
        ValueError: If an argument has an invalid value, `language_model` is not a language model,
            or the vocabulary sizes differ.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import (
    ...     BeamDecoder, CausalLanguageModel, FusedDecoder, TransformerDecoderBlock, rnn_seq2seq,
    ... )
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    >>> block = TransformerDecoderBlock(num_heads=2, intermediate_dim=16, cross_attention=False)
    >>> embedding = keras.layers.ReversibleEmbedding(30, 8)
    >>> language_model = CausalLanguageModel(block, embedding, num_layers=1)
    >>> fused = FusedDecoder(decoder, language_model, weight=0.2)
    >>> results = BeamDecoder(fused, max_length=5)(**encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(results["scores"].shape)  # (batch, hypotheses)
    (1, 1)
    """

    def __init__(
        self, decoder: StepDecoder, language_model: StepDecoder, weight: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(decoder, StepDecoder):
            raise ValueError(
                "Expected decoder to be a StepDecoder, such as RNNDecoder. Received: "
                f"decoder={_kind(decoder)}. Pass the decoder of a model, model.decoder."
            )
        if not (isinstance(language_model, StepDecoder) and language_model.reads_prompts):
            raise ValueError(
                "Expected language_model to be a CausalLanguageModel, or another StepDecoder with "
                f"reads_prompts=True. Received: language_model={_kind(language_model)}. Pass the "
                "decoder of a language model, model.decoder."
            )
        check_nonnegative_number(weight=weight)
        self.vocabulary_size = common_vocabulary_size([decoder, language_model])
        self.decoder = decoder
        self.language_model = language_model
        self.weight = float(weight)

    @property
    def members(self) -> dict[str, StepDecoder]:
        return {"decoder": self.decoder, MODEL: self.language_model}

    def member_arguments(self, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if name == MODEL and not self.decoder.reads_prompts:
            return {}
        return super().member_arguments(name, *args, **kwargs)

    def prepare_memory(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> TensorDict:
        sources = encoder_outputs, encoder_mask, encoder_state, query_features
        memory = self.decoder.prepare_memory(**self.member_arguments("decoder", *sources))
        prompts = self.member_arguments(MODEL, *sources)
        if not prompts:  # the language model begins with an empty prompt
            tokens = self.decoder.first_token_ids(memory, 0)  # (B,)
            prompts = {"encoder_outputs": tokens[:, None][:, :0]}  # (B, 0)
        return {"decoder": memory, MODEL: self.language_model.prepare_memory(**prompts)}

    def combine_logits(self, logits: dict[str, Tensor]) -> Tensor:
        log_probs = [self.decoder.compute_log_probs(logits["decoder"])]
        if self.weight > 0:  # 0 * log(0) would be NaN
            log_probs.append(self.language_model.compute_log_probs(logits[MODEL]))
        scores, *of_model = log_probs
        for values in of_model:
            scores = scores + self.weight * values
        if not self.forbids_tokens:
            return scores
        # A small weight must not make impossible tokens possible. NaN remains NaN.
        is_impossible = sum(ops.cast(each < IMPOSSIBLE / 2, "int32") for each in log_probs) > 0
        return ops.where(is_impossible, -LARGEST_LOGIT, scores)

    def compute_log_probs(self, logits: Tensor) -> Tensor:
        return ops.maximum(logits, IMPOSSIBLE) if self.forbids_tokens else logits

    def combine_alignments(self, alignments: dict[str, Tensor]) -> Tensor | None:
        return alignments.get("decoder")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "decoder": serialize_shared(self.decoder),
            "language_model": serialize_shared(self.language_model),
            "weight": self.weight,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        members = {name: deserialize_shared(config[name]) for name in ("decoder", MODEL)}
        return cls(**{**config, **members})


def _kind(value):
    """Returns the name of a class or of an object's class, for error messages."""
    return getattr(value, "__name__", type(value).__name__)
