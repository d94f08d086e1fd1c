from collections.abc import Iterable, Sequence
from typing import Any, Self

import keras
from keras import ops

from keras_attn._decoders.composed_decoder import ComposedDecoder, common_vocabulary_size
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.argument_checks import list_of_layers
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_finite

AVERAGES = ("arithmetic", "geometric")
LEAST_LOGIT = -1e37
"""Maximum of the logits if the vocabulary axis is empty."""
LEAST_PROBABILITY = 1e-37  # avoids log(0) = -inf, which fails in ONNX loops


@keras.saving.register_keras_serializable(package="keras_attn")
class EnsembleDecoder(ComposedDecoder):
    """Averages the predictions of several decoders for each token.

        arithmetic   p(y) = sum_i w_i p_i(y)
        geometric    p(y) = prod_i p_i(y)^w_i / Z

    Here p_i(y) is the probability of token y according to decoder i, w_i is this decoder's weight,
    and Z normalizes the product. Models make different errors if they are trained separately, with
    different initial weights or architectures. Their average is usually better than each single
    model, but all models must run at each step ([Sutskever et al.,
    2014](https://arxiv.org/abs/1409.3215), table 1). fairseq uses the arithmetic mean; Marian and
    OpenNMT-py use the geometric mean.

    The alignments of all decoders with attention are averaged with the weights w_i. These decoders
    must have sources of the same length.

    Args:
        decoders: List of `StepDecoder`s with the same target vocabulary. Recurrent decoders and
            Transformers can be combined.
        member_weights: List of positive floats, the decoders' weights w_i, which are normalized to
            sum to 1. Defaults to `None`: equal weights.
        average: String. `"arithmetic"` averages the probabilities. `"geometric"` averages the log
            probabilities; a token is then likely only if all decoders give it a high probability.
            Defaults to `"arithmetic"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)` that all decoders share, or a
            dict from a decoder's index, `"0"`, `"1"`, ..., to its tensor. `EnsembleEncoder`
            returns such dicts.
        encoder_mask: Boolean tensor of shape `(batch, source)`, or a dict from a decoder's index to
            its mask. Defaults to `None`.
        encoder_state: Nested lists of tensors, or a dict from a decoder's index to its state.
            Defaults to `None`.
        query_features: Tensor of shape `(batch, features)`, or a dict from a decoder's index to its
            tensor. Defaults to `None`.
        encoder_outputs_mask: Boolean tensors of shape `(batch, source)`, the implicit masks of
            `encoder_outputs`. Keras passes this argument. The decoder combines `encoder_mask` and
            `encoder_outputs_mask`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)` of the averaged distribution. The
        logits of each decoder equal its log probabilities plus a constant. The constant of the
        result is the weighted mean of these constants. This constant only affects the
        `repetition_penalty` of a search.

    Masking:
        Each decoder applies its own masking.

    Raises:
        ValueError: If an argument is out of range, the decoders have different vocabularies, or a
            dict has keys that are not decoder indices.

    Example:

    >>> import numpy as np
    >>> from keras_attn import EnsembleDecoder, EnsembleEncoder, rnn_seq2seq, transformer_tiny
    >>> pairs = [rnn_seq2seq(20, 30, units=8, embedding_dim=8), transformer_tiny(20, 30)]
    >>> encoders, decoders = zip(*pairs)
    >>> encoded = EnsembleEncoder(encoders)(np.array([[5, 6, 7, 2]]))
    >>> tuple(EnsembleDecoder(decoders)(np.array([[1, 8, 9]]), **encoded).shape)
    (1, 3, 30)
    """

    def __init__(
        self,
        decoders: Iterable[StepDecoder],
        member_weights: Sequence[float] | None = None,
        *,
        average: str = "arithmetic",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.decoders = list_of_layers("decoders", decoders, StepDecoder)
        if average not in AVERAGES:
            raise ValueError(
                f"Expected average to be one of {AVERAGES}. Received: average={average!r}."
            )
        if member_weights is None:
            member_weights = [1.0] * len(self.decoders)
        if len(member_weights) != len(self.decoders) or not all(
            is_finite(weight) and weight > 0 for weight in member_weights
        ):
            raise ValueError(
                "Expected member_weights with a positive, finite number for each decoder. "
                f"Received: member_weights={member_weights} for {len(self.decoders)} decoders."
            )
        self.vocabulary_size = common_vocabulary_size(self.decoders)
        self.member_weights = [float(weight) for weight in member_weights]
        self.average = average

    @property
    def members(self) -> dict[str, StepDecoder]:
        """Dict from `"0"`, `"1"`, ... to the decoders."""
        return {str(place): decoder for place, decoder in enumerate(self.decoders)}

    def member_arguments(
        self,
        name: str,
        encoder_outputs: Any = None,
        encoder_mask: Any = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> dict[str, Any]:
        sources = encoder_outputs, encoder_mask, encoder_state, query_features
        return super().member_arguments(name, *(self._own(name, values) for values in sources))

    def _own(self, name, values):
        """Selects the value for one decoder, if `values` is a dict with one value per decoder."""
        if not isinstance(values, dict) or not values or not all(map(str.isdigit, values)):
            return values
        if not set(values) <= set(self.members):
            raise ValueError(
                f"Expected a dict with the indices {list(self.members)} of decoders as keys. "
                f"Received: a dict with the keys {list(values)}."
            )
        return values.get(name)

    def combine_alignments(self, alignments: dict[str, Tensor]) -> Tensor | None:
        if not alignments:
            return None
        values = [ops.cast(weights, self.compute_dtype) for weights in alignments.values()]
        lengths = {weights.shape[-1] for weights in values} - {None}
        if len(lengths) > 1:
            raise ValueError(
                "Expected sources of the same length for all decoders, to average their "
                f"alignments. Received: source lengths {sorted(lengths)}."
            )
        return _weighted(values, [self.member_weights[int(name)] for name in alignments])

    def combine_logits(self, logits: dict[str, Tensor]) -> Tensor:
        if self.average == "geometric":
            # log probabilities plus a constant
            return _weighted(logits.values(), self.member_weights)
        probabilities = [ops.softmax(member_logits) for member_logits in logits.values()]
        mean = _weighted(probabilities, self.member_weights)
        # The constant of each decoder: its logits minus its log probabilities, computed at the
        # largest logit.
        levels = [
            ops.max(member_logits, axis=-1, keepdims=True, initial=LEAST_LOGIT)
            - ops.log(ops.max(probability, axis=-1, keepdims=True, initial=LEAST_PROBABILITY))
            for member_logits, probability in zip(logits.values(), probabilities, strict=True)
        ]  # (..., 1)
        level = _weighted(levels, self.member_weights)
        return ops.log(ops.maximum(mean, LEAST_PROBABILITY)) + level

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "decoders": [serialize_shared(decoder) for decoder in self.decoders],
            "member_weights": self.member_weights,
            "average": self.average,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        decoders = [deserialize_shared(decoder_config) for decoder_config in config["decoders"]]
        return cls(**{**config, "decoders": decoders})


def _weighted(values, weights):
    """Returns the weighted mean of tensors."""
    total = sum(weights)
    weighted = zip(weights, values, strict=True)
    first, *weighted_values = [weight / total * value for weight, value in weighted]
    return sum(weighted_values, first)
