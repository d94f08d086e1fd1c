import functools
from collections.abc import Iterable, Sequence
from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import list_of_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict
from keras_attn_checks.number_types import is_finite

AVERAGES = ("arithmetic", "geometric")
LEAST_LOGIT = -1e37
"""Maximum of the logits if the vocabulary axis is empty."""
LEAST_PROBABILITY = 1e-37  # avoids log(0) = -inf, which fails in ONNX loops


@keras.saving.register_keras_serializable(package="keras_attn")
class EnsembleDecoder(StepDecoder):
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
        kwargs.setdefault("autocast", False)  # each decoder casts to its own precision
        super().__init__(**kwargs)
        self.decoders = list_of_layers("decoders", decoders, StepDecoder)
        sizes = {get_vocabulary_size(decoder) for decoder in self.decoders} - {None}
        if len(sizes) > 1:
            raise ValueError(
                "Expected decoders with the same target vocabulary. Received: vocabulary sizes "
                f"{[get_vocabulary_size(decoder) for decoder in self.decoders]}."
            )
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
        self.vocabulary_size = next(iter(sizes), None)
        self.member_weights = [float(weight) for weight in member_weights]
        self.average = average

    @property
    def members(self) -> dict[str, StepDecoder]:
        """Dict from `"0"`, `"1"`, ... to the decoders."""
        return {str(place): decoder for place, decoder in enumerate(self.decoders)}

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        shapes = (encoder_outputs_shape, encoder_mask_shape, encoder_state_shape)
        for name, decoder in self.members.items():
            own_shapes = [self._own(name, shape) for shape in shapes]
            features = self._own(name, query_features_shape)
            ensure_built(
                decoder, token_ids_shape, *own_shapes, *([] if features is None else [features])
            )

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
        encoder_outputs_mask: Masks | None = None,
    ) -> Any:
        encoder_mask = masks.join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        arguments = encoder_outputs, encoder_mask, encoder_state, query_features
        return self._mean(
            [
                decoder(token_ids, **self._arguments(name, *arguments))
                for name, decoder in self.members.items()
            ]
        )

    @property
    def can_exceed_max_length(self) -> bool:
        # On backends where tensors cannot grow, the default of each decoder is `False`, so a single
        # `True` was set explicitly.
        of_these = all if growing_buffer.supports_growth() else any
        return of_these(decoder.can_exceed_max_length for decoder in self.decoders)

    def primary_source(self, values: Any) -> Any:
        return self.decoders[0].primary_source(self._own("0", values))

    def prepare_memory(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> TensorDict:
        arguments = encoder_outputs, encoder_mask, encoder_state, query_features
        return {
            name: decoder.prepare_memory(**self._arguments(name, *arguments))
            for name, decoder in self.members.items()
        }

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        return self._state(
            {
                name: decoder.initial_state(memory[name], beam_width, alignments, max_length)
                for name, decoder in self.members.items()
            }
        )

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        limits = [decoder.max_tokens(memory[name]) for name, decoder in self.members.items()]
        limits = [limit for limit in limits if limit is not None]
        return functools.reduce(ops.minimum, limits) if limits else None

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        return self.decoders[0].first_token_ids(memory["0"], start_token_id)

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        steps = {
            name: decoder.step(token_ids, self._state_of(name, state), memory[name])
            for name, decoder in self.members.items()
        }
        logits = self._mean([logits for logits, _ in steps.values()])  # (B*K, V)
        return logits, self._state({name: new_state for name, (_, new_state) in steps.items()})

    @property
    def forbids_tokens(self) -> bool:
        return any(decoder.forbids_tokens for decoder in self.decoders)

    @property
    def cache_block_size(self) -> int | None:
        intervals = [decoder.cache_block_size for decoder in self.decoders]
        return min((interval for interval in intervals if interval is not None), default=None)

    @cache_block_size.setter
    def cache_block_size(  # pyright: ignore[reportIncompatibleVariableOverride] - of all members
        self, steps: int | None
    ) -> None:
        for decoder in self.decoders:
            decoder.cache_block_size = steps

    def archive(self, state: TensorDict) -> TensorDict:
        states = {name: self._state_of(name, state) for name in self.members}
        for name, decoder in self.members.items():
            if decoder.cache_block_size is not None:
                states[name] = decoder.archive(states[name])
        return self._state(states)

    @property
    def can_widen(self) -> bool:
        return all(decoder.can_widen for decoder in self.decoders)

    def widen(self, state: TensorDict, steps: int) -> TensorDict:
        return self._state(
            {
                name: decoder.widen(self._state_of(name, state), steps)
                for name, decoder in self.members.items()
            }
        )

    def select(self, memory: TensorDict, rows: Tensor) -> TensorDict:
        return {name: decoder.select(memory[name], rows) for name, decoder in self.members.items()}

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

    def _arguments(self, name, encoder_outputs, encoder_mask, encoder_state, query_features):
        """Returns the keyword arguments for a decoder's `call` and `prepare_memory`."""
        features = self._own(name, query_features)
        return {
            "encoder_outputs": self._own(name, encoder_outputs),
            "encoder_mask": self._own(name, encoder_mask),
            "encoder_state": self._own(name, encoder_state),
            **({} if features is None else {"query_features": features}),
        }

    def _state(self, states):
        """Combines all decoders' states into one state."""
        state = {"members": {}, "shared": {}}
        for name, member in states.items():
            state["members"][name] = {
                part: value for part, value in member.items() if part != "shared"
            }
            if "shared" in member:
                state["shared"][name] = member["shared"]
        alignments = {
            name: ops.cast(member["alignments"], self.compute_dtype)
            for name, member in states.items()
            if "alignments" in member
        }
        if alignments:
            lengths = {alignment.shape[-1] for alignment in alignments.values()} - {None}
            if len(lengths) > 1:
                raise ValueError(
                    "Expected sources of the same length for all decoders, to average their "
                    f"alignments. Received: source lengths {sorted(lengths)}."
                )
            weights = [self.member_weights[int(name)] for name in alignments]
            state["alignments"] = _weighted(alignments.values(), weights)
        return state

    def _state_of(self, name, state):
        """Returns the state of one decoder."""
        member = state["members"][name]
        return {**member, "shared": state["shared"][name]} if name in state["shared"] else member

    def _mean(self, logits):
        """Averages a list of logits `(..., V)`, one for each decoder."""
        if self.average == "geometric":
            return _weighted(logits, self.member_weights)  # log probabilities plus a constant
        probabilities = [ops.softmax(member_logits) for member_logits in logits]
        mean = _weighted(probabilities, self.member_weights)
        # The constant of each decoder: its logits minus its log probabilities, computed at the
        # largest logit.
        levels = [
            ops.max(member_logits, axis=-1, keepdims=True, initial=LEAST_LOGIT)
            - ops.log(ops.max(probability, axis=-1, keepdims=True, initial=LEAST_PROBABILITY))
            for member_logits, probability in zip(logits, probabilities, strict=True)
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
