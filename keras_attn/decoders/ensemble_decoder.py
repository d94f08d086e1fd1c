import functools

import keras
from keras import ops

from keras_attn import masks
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import is_finite, list_of_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.decoders.step_decoder import StepDecoder

AVERAGES = ("arithmetic", "geometric")
LEAST_LOGIT = -1e37
"""The largest logit of no positions, which an empty target has."""
LEAST_PROBABILITY = 1e-37  # the logarithm of 0 is infinite, and loops in ONNX take no infinities


@keras.saving.register_keras_serializable(package="keras_attn")
class EnsembleDecoder(StepDecoder):
    """Several decoders that choose each token together.

        arithmetic   p(y) = sum_i w_i p_i(y)
        geometric    p(y) = prod_i p_i(y)^w_i / Z

    Models that were trained alone, from other first weights or of other kinds, err in other places:
    their mean is mostly better than each, for as many times the work. So did
    [Sutskever et al., 2014](https://arxiv.org/abs/1409.3215), table 1, and each of the best systems
    since. The arithmetic mean is fairseq's, the geometric one Marian's and OpenNMT-py's.

    Args:
        decoders: list of `StepDecoder`s with one target vocabulary: recurrent decoders,
            Transformers, or both.
        member_weights: list of float > 0, how much each counts; only their ratios matter. Default
            `None`: all alike.
        average: `"arithmetic"` (default) or `"geometric"`, what is a mean: the probabilities, or
            their logarithms, after which a token must suit all.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: see `StepDecoder.call`.
        encoder_outputs, encoder_mask, encoder_state, query_features: as for one decoder, then all
            are given the same; or dicts from `"0"`, `"1"`, ..., the place in `decoders`, to what is
            for that decoder, as an `EnsembleEncoder` returns them.
        encoder_outputs_mask: the implicit masks of `encoder_outputs`, passed by Keras, which are
            joined with `encoder_mask`.

    Returns:
        float32 logits `(batch, target, vocabulary)` of the means, as large as those of the
        decoders, which a `repetition_penalty` looks at.

    Masking: that of each decoder.

    The alignments of a step are the mean of those of the decoders that have attention, weighed like
    the probabilities. Their sources must have the same length then.

    Raises:
        ValueError: for arguments out of range, or decoders of different vocabularies.

    Example:

    >>> import numpy as np
    >>> from keras_attn import EnsembleEncoder, rnn_seq2seq, transformer_tiny
    >>> pairs = [rnn_seq2seq(20, 30, units=8, embedding_dim=8), transformer_tiny(20, 30)]
    >>> encoders, decoders = zip(*pairs)
    >>> encoded = EnsembleEncoder(encoders)(np.array([[5, 6, 7, 2]]))
    >>> tuple(EnsembleDecoder(decoders)(np.array([[1, 8, 9]]), **encoded).shape)
    (1, 3, 30)
    """

    def __init__(self, decoders, member_weights=None, average="arithmetic", **kwargs):
        kwargs.setdefault("autocast", False)  # each decoder has a precision of its own
        super().__init__(**kwargs)
        self.decoders = list_of_layers("decoders", decoders, StepDecoder)
        sizes = {get_vocabulary_size(decoder) for decoder in self.decoders} - {None}
        if len(sizes) > 1:
            raise ValueError(
                "Expected decoders of one target vocabulary. Received: decoders of "
                f"{[get_vocabulary_size(decoder) for decoder in self.decoders]} tokens."
            )
        if average not in AVERAGES:
            raise ValueError(f"average must be one of {AVERAGES}. Received: average={average!r}.")
        if member_weights is None:
            member_weights = [1.0] * len(self.decoders)
        if len(member_weights) != len(self.decoders) or not all(
            is_finite(weight) and weight > 0 for weight in member_weights
        ):
            raise ValueError(
                "member_weights must be positive and finite, one of each decoder. Received: "
                f"member_weights={member_weights} of {len(self.decoders)} decoders."
            )
        self.vocabulary_size = next(iter(sizes), None)
        self.member_weights = [float(weight) for weight in member_weights]
        self.average = average

    @property
    def members(self):
        """Dict from `"0"`, `"1"`, ... to the decoders."""
        return {str(place): decoder for place, decoder in enumerate(self.decoders)}

    def build(
        self,
        token_ids_shape,
        encoder_outputs_shape=None,
        encoder_mask_shape=None,
        encoder_state_shape=None,
        query_features_shape=None,
    ):
        shapes = (encoder_outputs_shape, encoder_mask_shape, encoder_state_shape)
        for name, decoder in self.members.items():
            own = [self._own(name, shape) for shape in shapes]
            features = self._own(name, query_features_shape)
            ensure_built(decoder, token_ids_shape, *own, *([] if features is None else [features]))

    def call(
        self,
        token_ids,
        encoder_outputs=None,
        encoder_mask=None,
        encoder_state=None,
        query_features=None,
        encoder_outputs_mask=None,
    ):
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
    def can_exceed_max_length(self):
        # Where nothing can grow in a search, one is enough to say so.
        of_these = all if growing_buffer.supports_growth() else any
        return of_these(decoder.can_exceed_max_length for decoder in self.decoders)

    def primary_source(self, values):
        return self.decoders[0].primary_source(self._own("0", values))

    def prepare_memory(
        self, encoder_outputs, encoder_mask=None, encoder_state=None, query_features=None
    ):
        arguments = encoder_outputs, encoder_mask, encoder_state, query_features
        return {
            name: decoder.prepare_memory(**self._arguments(name, *arguments))
            for name, decoder in self.members.items()
        }

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        return self._state(
            {
                name: decoder.initial_state(memory[name], beam_width, alignments, max_length)
                for name, decoder in self.members.items()
            }
        )

    def max_tokens(self, memory):
        limits = [decoder.max_tokens(memory[name]) for name, decoder in self.members.items()]
        limits = [limit for limit in limits if limit is not None]
        return functools.reduce(ops.minimum, limits) if limits else None

    def first_token_ids(self, memory, start_token_id):
        return self.decoders[0].first_token_ids(memory["0"], start_token_id)

    def step(self, token_ids, state, memory):
        steps = {
            name: decoder.step(token_ids, self._state_of(name, state), memory[name])
            for name, decoder in self.members.items()
        }
        logits = self._mean([logits for logits, _ in steps.values()])  # (B*K, V)
        return logits, self._state({name: new_state for name, (_, new_state) in steps.items()})

    @property
    def forbids_tokens(self):
        return any(decoder.forbids_tokens for decoder in self.decoders)

    @property
    def cache_block_size(self):
        intervals = [decoder.cache_block_size for decoder in self.decoders]
        return min((each for each in intervals if each is not None), default=None)

    @cache_block_size.setter
    def cache_block_size(self, steps):
        for decoder in self.decoders:
            decoder.cache_block_size = steps

    def archive(self, state):
        states = {name: self._state_of(name, state) for name in self.members}
        for name, decoder in self.members.items():
            if decoder.cache_block_size is not None:
                states[name] = decoder.archive(states[name])
        return self._state(states)

    def select(self, memory, rows):
        return {name: decoder.select(memory[name], rows) for name, decoder in self.members.items()}

    def _own(self, name, values):
        """What a decoder is given of values for all of them."""
        if not isinstance(values, dict) or not values or not all(map(str.isdigit, values)):
            return values
        if not set(values) <= set(self.members):
            raise ValueError(
                f"Expected values of the decoders {list(self.members)}. Received: {list(values)}."
            )
        return values.get(name)

    def _arguments(self, name, encoder_outputs, encoder_mask, encoder_state, query_features):
        """Keyword arguments of a decoder's `call` and `prepare_memory`."""
        features = self._own(name, query_features)
        return {
            "encoder_outputs": self._own(name, encoder_outputs),
            "encoder_mask": self._own(name, encoder_mask),
            "encoder_state": self._own(name, encoder_state),
            **({} if features is None else {"query_features": features}),
        }

    def _state(self, states):
        """One state of those of all decoders."""
        state = {"members": {}, "shared": {}}
        for name, own in states.items():
            state["members"][name] = {
                part: value for part, value in own.items() if part != "shared"
            }
            if "shared" in own:
                state["shared"][name] = own["shared"]
        alignments = {
            name: ops.cast(own["alignments"], self.compute_dtype)
            for name, own in states.items()
            if "alignments" in own
        }
        if alignments:
            lengths = {each.shape[-1] for each in alignments.values()} - {None}
            if len(lengths) > 1:
                raise ValueError(
                    "Expected decoders with sources of one length, because of alignments. "
                    f"Received: sources of {sorted(lengths)} positions."
                )
            weights = [self.member_weights[int(name)] for name in alignments]
            state["alignments"] = _weighted(alignments.values(), weights)
        return state

    def _state_of(self, name, state):
        """The state of a decoder."""
        own = state["members"][name]
        return {**own, "shared": state["shared"][name]} if name in state["shared"] else own

    def _mean(self, logits):
        """The logits `(..., V)` of the mean of all decoders, of whose logits there is a list."""
        if self.average == "geometric":
            return _weighted(logits, self.member_weights)  # up to a term that is alike for all
        probabilities = [ops.softmax(each) for each in logits]
        mean = _weighted(probabilities, self.member_weights)
        # How far logits lie above the log probabilities, seen at the largest.
        levels = [
            ops.max(each, axis=-1, keepdims=True, initial=LEAST_LOGIT)
            - ops.log(ops.max(probability, axis=-1, keepdims=True, initial=LEAST_PROBABILITY))
            for each, probability in zip(logits, probabilities, strict=True)
        ]  # (..., 1)
        level = _weighted(levels, self.member_weights)
        return ops.log(ops.maximum(mean, LEAST_PROBABILITY)) + level

    def get_config(self):
        return {
            **super().get_config(),
            "decoders": [serialize_shared(decoder) for decoder in self.decoders],
            "member_weights": self.member_weights,
            "average": self.average,
        }

    @classmethod
    def from_config(cls, config):
        decoders = [deserialize_shared(each) for each in config["decoders"]]
        return cls(**{**config, "decoders": decoders})


def _weighted(values, weights):
    """The weighted mean of tensors."""
    total = sum(weights)
    weighted = zip(weights, values, strict=True)
    first, *others = [weight / total * value for weight, value in weighted]
    return sum(others, first)
