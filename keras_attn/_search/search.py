import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import keras
import numpy as np
from keras import ops, tree

from keras_attn._backend.integers import sum_int32
from keras_attn._backend.litert_tracing import grow_in_blocks, is_traced_for_litert
from keras_attn._backend.no_gradients import no_gradients
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import check_integers, known_values
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._layer.layer import Layer
from keras_attn._layer.low_rank_settings import LORA
from keras_attn._masks import broadcast_batch, join
from keras_attn._search import prefix
from keras_attn._search.end_tokens import is_any_of
from keras_attn._search.loop import run_search
from keras_attn._search.repetition import forbid_repeated_ngrams, penalize_repetition
from keras_attn._search.rules import STATES, apply_rules, check_rules, rule_inputs, start_rules
from keras_attn._search.stop_sequences import StopMatches, find_stops
from keras_attn._search.suppressed_sequences import suppress_sequences
from keras_attn._search.token_bias import add_token_bias, prepare_token_bias
from keras_attn._search.token_penalties import token_penalties
from keras_attn._search.top_tokens import (
    TOP_TOKEN_IDS,
    TOP_TOKEN_LOG_PROBS,
    check_number,
    find_top_tokens,
)
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, Masks, StaticShape, Tensor, TensorDict, TensorLike
from keras_attn_checks.number_types import is_number
from keras_attn_checks.options import checked_options, list_options
from keras_attn_checks.search_names import other_name_hint
from keras_attn_checks.search_options import SearchOptions, runtime_settings

SIZES = ("beam_width", "no_repeat_ngram_size", "top_k")
"""Settings that are sizes of tensors, so that a call can only decrease them."""

COUNTS = ("beam_width", "num_hypotheses")
"""Settings that are sizes of the loop variables of a search."""

ZERO_IS_NONE = ("top_k",)
"""Settings whose value 0 in a call stands for `None`, the value without a limit."""

WORD_STARTS = "word_starts"
"""Name of the call argument `word_starts` among the settings of a call."""


@fill_docstring(Layer)
class Search(Layer, SearchOptions):
    """Base class of searches. A search generates sequences with a decoder.

    The state of a search is the *carry*, a nested dict of tensors; `keras_attn._search.loop`
    documents its content. `prepare` creates the carry (with the method `start` of the subclass),
    `advance` extends the hypotheses by one token, and `finish` converts the hypotheses to results.
    `call` runs these methods; its loop is part of the graph. A program can also call `advance` in a
    loop of its own until all entries of `carry["done"]` are `True`, and call `partial` for
    intermediate results. Each setting is also an attribute of the same name.

    Args:
        decoder: `StepDecoder`.
        {{options}}
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        encoder_outputs: Tensor of shape `(batch, source, features)`, or a dict of tensors for a
            decoder with `CombinedAttention`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. A dict of masks if `encoder_outputs` is a dict. The search combines it with
            the implicit mask. Defaults to `None`: no masked positions.
        encoder_state: Nested lists of tensors of shape `(batch, units)`, the final state of the
            encoder. Defaults to `None`.
        max_length: Int or scalar int32 tensor that replaces the constructor argument. It cannot
            exceed the constructor argument if `decoder.can_exceed_max_length` is `False`, for
            example on JAX. Defaults to `None`: the constructor argument.
        length_penalty: Float or scalar float32 tensor that replaces the constructor argument.
            Defaults to `None`: the constructor argument.
        settings: Dict from names of further settings to numbers or scalar tensors, which replace
            the constructor arguments in this call; see `runtime_settings`. Defaults to `None`: the
            constructor arguments.
        query_features: Tensor of shape `(batch, features)`. Required by an `RNNDecoder` if its
            `AttentionRNNCell` was created with a `query_from` that contains `"features"`. Defaults
            to `None`.
        prefix_ids: Int tensor of shape `(batch, prefix)`, padded on the right. Every hypothesis
            begins with these tokens, for example a language tag. With the shape `(1, prefix)`, all
            batch entries share one prefix. Length limits and lengths include the prefix tokens. Log
            probabilities include the prefix tokens, unless `score_prefix=False`. Defaults to
            `None`: no prefix.
        seeds: Int32 tensor of shape `(batch,)`, seeds of a stochastic search, such as
            `SamplingDecoder`. With the shape `(1,)`, all batch entries share one seed. Defaults to
            `None`.
        constraint_ids: Int tensor of shape `(batch, phrases, alternatives, tokens)`, padded with
            -1. Each hypothesis of a `BeamDecoder` must contain one alternative of each phrase, see
            there. With the shape `(1, phrases, alternatives, tokens)`, all batch entries share the
            phrases. Defaults to `None`: no phrases.
        constraints_in_order: Bool or scalar boolean tensor, whether the phrases must occur in their
            order, without overlaps. Defaults to `False`: in any order.
        word_starts: Boolean tensor of shape `(V,)`. `True` marks the tokens that begin a word: a
            phrase must be followed by such a token, or end the hypothesis. Defaults to `None`: any
            token may follow.
        token_bias_ids: Int tensor of shape `(batch, biases)`, padded with -1, tokens whose log
            probabilities change in this call. With the shape `(1, biases)`, all batch entries share
            the biases. Defaults to `None`: no biases.
        token_bias_values: Float tensor with the shape of `token_bias_ids`, added to the log
            probabilities of these tokens, in nats; -1e9 forbids a token. The scores include them.
            They do not apply to prefix tokens. Defaults to `None`.
        rule_inputs: Dict from the `call_inputs` that the `rules` declare to scalars, or tensors of
            shape `(batch, ...)` or `(1, ...)`. Defaults to `None`: the default values.
        mask: Do not pass it. Keras passes the implicit mask of `encoder_outputs` here if it is the
            only tensor argument.
        encoder_outputs_mask: Do not pass it. Keras passes the implicit mask of `encoder_outputs`
            here if there are other tensor arguments.

    Returns:
        Dict of the hypotheses of each batch entry, best first:

        - `token_ids`: int32 `(batch, hypotheses, time)`, padded on the right. If the hypothesis has
          an end token or a stop sequence, it is included.
        - `lengths`: int32 `(batch, hypotheses)`, number of tokens without the end token or the stop
          sequence at the end. If several stop sequences end there, the longest one counts.
        - `scores`: float32 `(batch, hypotheses)`, log probability divided by the length penalty,
          plus the coverage penalty of a beam search.
        - `log_probs`: float32 `(batch, hypotheses)`, natural logarithm of the probability of all
          tokens, including the end token or stop sequence. The probability of a forced token is 1.
        - `alignments`: float `(batch, hypotheses, time, source)`, if `return_alignments=True`.
        - `token_log_probs`: float32 `(batch, hypotheses, time)`, if `return_token_log_probs=True`:
          log probability of each token given the previous tokens. The sum over `time` is
          `log_probs`.
        - `top_token_ids`: int32 `(batch, hypotheses, time, return_top_tokens)`, if
          `return_top_tokens` is positive: the most probable tokens at each position given the
          previous tokens, best first.
        - `top_token_log_probs`: float32 `(batch, hypotheses, time, return_top_tokens)`, if
          `return_top_tokens` is positive: their log probabilities, from the same distribution as
          `token_log_probs`. They do not depend on the token that the search has selected. Tokens
          that a setting makes impossible at the position have the value -1e9, even if a required
          phrase contains them. At prefix tokens, the distribution is that of the decoder alone.
          Positions after the end of a hypothesis contain `pad_token_id` and 0.
        - `constraints_met`: bool `(batch, hypotheses, phrases)`, if `constraint_ids` are passed:
          whether the hypothesis contains each phrase. `True` for phrases without tokens.

        If a search finds fewer hypotheses than requested, the missing hypotheses have the score and
        log probability -1e9. If every next token of a hypothesis is impossible (a dead end), the
        hypothesis is returned without an end token and ranks below all finished hypotheses.

    Attributes:
        is_stochastic: Bool, whether the search samples tokens at random and accepts `seeds`.
        beam_width: Int, number of beams, 1 for a search without beams.
        num_hypotheses: Int, number of returned hypotheses per batch entry.

    Raises:
        ValueError: If an argument is out of range, or `seeds` are passed to a search without
            sampling.

    Example:

    All searches are called in the same way:

    >>> import numpy as np
    >>> from keras_attn import GreedyDecoder, Search, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = GreedyDecoder(decoder, max_length=3)
    >>> isinstance(search, Search)
    True
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])))
    >>> sorted(results)
    ['lengths', 'log_probs', 'scores', 'token_ids']
    """

    is_stochastic = False
    beam_width: int = 1
    num_hypotheses: int = 1

    is_container = True

    @list_options(SearchOptions)
    def __init__(self, decoder: StepDecoder, **options: Any) -> None:
        values = checked_options(type(self), options)
        arguments = {name: options[name] for name in options if name not in values}
        arguments.setdefault("autocast", False)  # float16 would round the length penalty
        super().__init__(**arguments)
        self.supports_masking = True
        for name, value in values.items():
            setattr(self, name, value)
        self.check_options()
        self.rules = check_rules(self.rules)
        rule_inputs(self.rules)
        if not isinstance(decoder, StepDecoder):
            raise ValueError(
                "Expected decoder to be a StepDecoder, such as RNNDecoder. Received: "
                f"decoder={type(decoder).__name__}. Create the decoder first."
            )
        self.decoder = decoder
        self.supports_jit = not growing_buffer.supports_growth()

    def build(
        self,
        encoder_outputs_shape: StaticShape,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        shapes = [encoder_outputs_shape, encoder_mask_shape, encoder_state_shape]
        if query_features_shape is not None:
            shapes.append(query_features_shape)
        ensure_built(self.decoder, (None, None), *shapes)
        for rule in self.rules:  # a loop cannot create variables
            ensure_built(rule, (None, get_vocabulary_size(self.decoder)))
        self._check_vocabulary()

    def _check_vocabulary(self):
        """Checks the special ids here, because Keras adds pages of context to errors of `call`."""
        size = get_vocabulary_size(self.decoder)
        names = ("start_token_id", "end_token_id", "other_end_token_ids")
        names += ("suppressed_token_ids", "suppressed_sequences", "stop_sequences")
        names += ("forced_prefix_ids",)
        for name in names:
            value = getattr(self, name)
            ids = tree.flatten(value)
            if size is not None and max(ids, default=0) >= size:
                raise ValueError(
                    f"Expected {name} below the size of the vocabulary, {size}. Received: {name}="
                    f"{value!r}. Pass ids of the target vocabulary."
                )
        if size is not None:
            check_number(self.return_top_tokens, size)

    def call(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        max_length: int | Tensor | None = None,
        length_penalty: float | Tensor | None = None,
        query_features: Any = None,
        prefix_ids: TensorLike | None = None,
        seeds: TensorLike | None = None,
        settings: Mapping[str, Any] | None = None,
        constraint_ids: TensorLike | None = None,
        constraints_in_order: bool | Tensor = False,
        word_starts: TensorLike | None = None,
        token_bias_ids: TensorLike | None = None,
        token_bias_values: TensorLike | None = None,
        rule_inputs: Mapping[str, Any] | None = None,
        mask: Masks | None = None,
        encoder_outputs_mask: Masks | None = None,
    ) -> TensorDict:
        encoder_mask = join(
            encoder_outputs,
            encoder_mask=encoder_mask,
            mask=mask,
            encoder_outputs_mask=encoder_outputs_mask,
        )
        if seeds is not None and not self.is_stochastic:
            raise ValueError(
                "Expected seeds only for a stochastic search, such as SamplingDecoder. Received: "
                f"seeds for {type(self).__name__}. Omit seeds."
            )
        given = {
            "query_features": query_features,
            "seeds": seeds,
            "token_bias_ids": token_bias_ids,
            "token_bias_values": token_bias_values,
            "rule_inputs": rule_inputs,
        }
        given = {name: value for name, value in given.items() if value is not None}
        values = self.call_settings(length_penalty, settings)
        if constraint_ids is not None:
            self._check_accepts_constraints()
            given["constraint_ids"] = constraint_ids
            given["constraints_in_order"] = constraints_in_order
            values[WORD_STARTS] = self._checked_word_starts(word_starts)
        in_blocks = is_traced_for_litert() and self.decoder.can_widen
        grow = grow_in_blocks() if in_blocks else contextlib.nullcontext()
        with grow, no_gradients():
            sources = encoder_outputs, encoder_mask, encoder_state
            carry, memory, max_lengths = self.prepare(
                *sources, max_length, prefix_ids, values, **given
            )
            hypotheses = run_search(
                lambda carry, memory, limits: self.advance(carry, memory, limits, values),
                self.decoder,
                carry,
                memory,
                max_lengths,
                self.width(carry, values),
            )
            return self.finish(hypotheses, values["num_hypotheses"])

    @property
    def accepts_constraints(self) -> bool:
        """Whether calls may have `constraint_ids`: those of a beam search without groups."""
        return False

    def _checked_word_starts(self, word_starts):
        size = get_vocabulary_size(self.decoder)
        if word_starts is not None and size is not None and np.shape(word_starts) != (size,):
            raise ValueError(
                f"Expected word_starts of shape ({size},), a value for each token. Received: "
                f"word_starts with shape {np.shape(word_starts)}. Pass keras_attn.text.word_starts("
                f"tokenizer, {size})."
            )
        return word_starts

    def _check_accepts_constraints(self):
        if not self.accepts_constraints:
            raise ValueError(
                "Expected constraint_ids only for a BeamDecoder with num_groups=1. Received: "
                f"constraint_ids for {type(self).__name__} with num_groups="
                f"{getattr(self, 'num_groups', 1)}. Omit constraint_ids, or use keras_attn."
                "with_search with a BeamDecoder."
            )

    @property
    def runtime_settings(self) -> dict[str, str]:
        """Dict from the settings that a call can replace to their dtypes.

        A call cannot turn on `coverage_penalty` or groups of beams, which need tensors that the
        search does not have without them. `beam_width`, `top_k` and `no_repeat_ngram_size` can only
        decrease, because they are sizes of tensors. `num_hypotheses` can increase up to the
        `beam_width` of a beam search.
        """
        names: dict[str, str] = dict(runtime_settings(type(self)))
        if not self.no_repeat_ngram_size:
            del names["no_repeat_ngram_size"]
        return names

    def call_settings(
        self,
        length_penalty: float | Tensor | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Returns the values of the settings in a call, the last argument of `advance`.

        Args:
            length_penalty: See the call arguments.
            settings: See the call arguments.

        Returns:
            Dict with `num_hypotheses`, `length_penalty` and the names in `runtime_settings`. Given
            values are scalar tensors, all others are Python numbers. A known `beam_width` or
            `num_hypotheses` is always a Python number.

        Raises:
            ValueError: If a name is not in `runtime_settings`, a value is out of range, or a
                `beam_width` or `num_hypotheses` is not known when the search is traced, where this
                is not supported.
        """
        dtypes = {"length_penalty": "float32", **runtime_settings(type(self))}
        given = dict(settings or {})
        unknown = sorted(set(given) - set(self.runtime_settings))
        if unknown:
            raise ValueError(
                f"Expected settings out of {list(self.runtime_settings)}. Received: "
                f"settings={unknown}. Pass {unknown[0]} to the constructor of "
                f"{type(self).__name__}, or use keras_attn.with_search."
            )
        given["length_penalty"] = length_penalty
        values = {name: getattr(self, name) for name in ("num_hypotheses", *dtypes)}
        kinds = {field.name: field.metadata["kind"] for field in dataclasses.fields(self)}
        for name, value in given.items():
            if value is None:
                continue
            if dtypes.get(name) == "int32" and not is_number(value) and hasattr(value, "dtype"):
                check_integers(name, value)
            known = known_values(value)
            if known is not None:
                number = known.item() if known.ndim == 0 else value
                number = None if name in ZERO_IS_NONE and number == 0 else number
                self._check_call_setting(name, kinds[name].check(name, number))
            if name in COUNTS:
                values[name] = self._call_count(name, value, known)
            else:
                values[name] = ops.cast(value, dtypes[name])
        return values

    def setting_value(self, name: str) -> Any:
        """Returns the value of a setting as a number, which a call can pass, see `ZERO_IS_NONE`."""
        value = getattr(self, name)
        return 0 if value is None else value

    def _call_count(self, name, value, known):
        """Returns a number of hypotheses of a call: an int, or a tensor in a TensorFlow graph."""
        if known is not None:
            return known.item()
        if not (growing_buffer.supports_growth() and self.decoder.can_exceed_max_length):
            raise ValueError(
                f"Expected an int {name} for a decoder with tensors of a fixed size. Received: "
                f"{name}={value} for {type(self.decoder).__name__}, with backend="
                f"{keras.backend.backend()!r}. Pass an int, or use keras_attn.with_search."
            )
        least, most = ops.maximum(ops.cast(value, "int32"), 1), self.largest_settings.get(name)
        return least if most is None else ops.minimum(least, most)

    @property
    def largest_settings(self) -> dict[str, int]:
        """Dict from the settings that a call cannot increase without limit to their maxima."""
        values = {name: getattr(self, name, None) for name in SIZES}
        return {name: value for name, value in values.items() if value is not None}

    def _check_call_setting(self, name, value):
        """Raises a `ValueError` if a setting of a call needs larger tensors than the search has."""
        most = self.largest_settings.get(name)
        if most is not None and value is not None and not value <= most:
            larger = "beam_width" if name == "num_hypotheses" else name
            value_of = "the value" if name == larger else f"the {larger}"
            raise ValueError(
                f"Expected {name} of at most {most}, {value_of} of the search. Received: "
                f"{name}={value}. Create the search with a larger {larger}."
            )

    def prepare(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        max_length: int | Tensor | None = None,
        prefix_ids: TensorLike | None = None,
        settings: Mapping[str, Any] | None = None,
        token_bias_ids: TensorLike | None = None,
        token_bias_values: TensorLike | None = None,
        rule_inputs: Mapping[str, Any] | None = None,
        **features: Any,
    ) -> tuple[TensorDict, TensorDict, Tensor]:
        """Returns the arguments of the first call of `advance`.

        Args:
            encoder_outputs: See the call arguments.
            encoder_mask: See the call arguments.
            encoder_state: See the call arguments.
            max_length: See the call arguments.
            prefix_ids: See the call arguments.
            settings: Dict returned by `call_settings`. Defaults to `None`: the constructor
                arguments.
            token_bias_ids, token_bias_values, rule_inputs: See the call arguments.
            **features: Further call arguments, such as `query_features` and `seeds`.

        Returns:
            Tuple of the carry before the first token, the memory of the decoder, and the maximum
            lengths, int32 `(batch,)`.
        """
        if self.decoder.can_exceed_max_length and not growing_buffer.supports_growth():
            raise ValueError(
                "Expected the TensorFlow backend for a cache that grows in a search. Received: "
                f"growing_cache=True in decoder {self.decoder.name!r} with backend="
                f"{keras.backend.backend()!r}. Set growing_cache=None."
            )
        outputs = self.decoder.primary_source(encoder_outputs)
        source_mask = self.decoder.primary_source(encoder_mask)
        if source_mask is None:
            source_mask = ops.ones(ops.shape(outputs)[:2], dtype="bool")  # (B, S)
        source_mask = broadcast_batch(source_mask, outputs)
        memory = self.decoder.prepare_memory(
            encoder_outputs, encoder_mask, encoder_state, **features
        )
        max_lengths = self.compute_max_lengths(source_mask, max_length)
        max_tokens = self.decoder.max_tokens(memory)
        if max_tokens is not None:
            max_lengths = ops.maximum(ops.minimum(max_lengths, max_tokens), 0)
        settings = self.call_settings() if settings is None else settings
        carry = self.start(memory, max_lengths, source_mask, settings)
        vocabulary_size = get_vocabulary_size(self.decoder)
        if (token_bias_ids is None) != (token_bias_values is None):
            raise ValueError(
                "Expected token_bias_ids together with token_bias_values. Received: only one of "
                "them. Pass both."
            )
        if token_bias_ids is not None and token_bias_values is not None:
            ids, values = map(ops.convert_to_tensor, (token_bias_ids, token_bias_values))
            carry["token_bias"] = prepare_token_bias(ids, values, max_lengths, vocabulary_size)
        if self.rules or rule_inputs:
            width = self.width(carry, settings)
            carry |= start_rules(self.rules, rule_inputs or {}, max_lengths, width)
        if self.forced_prefix_ids:
            forced = np.array([self.forced_prefix_ids], "int32")
            prefix.check_prefix(forced, self.pad_token_id, vocabulary_size)
            prefix_ids = forced[:, :0] if prefix_ids is None else prefix_ids
        if prefix_ids is not None:
            prefix_ids = ops.convert_to_tensor(prefix_ids)
            prefix.check_prefix(prefix_ids, self.pad_token_id, vocabulary_size)
            carry["prefix"] = prefix.broadcast_prefix(
                prefix_ids, max_lengths, self.pad_token_id, self.forced_prefix_ids
            )
        return carry, memory, max_lengths

    def compute_max_lengths(
        self, encoder_mask: Tensor, max_length: int | Tensor | None = None
    ) -> Tensor:
        """Returns the maximum lengths of the hypotheses, including the end token.

        Args:
            encoder_mask: Boolean tensor of shape `(batch, source)`.
            max_length: Int or scalar int32 tensor. Defaults to `None`: the constructor argument.

        Returns:
            Int32 tensor of shape `(batch,)`.
        """
        if is_number(max_length) and max_length % 1 == 0:
            max_length = int(max_length)
        if max_length is None:
            limit = ops.cast(self.max_length, "int32")
        else:
            limit = ops.convert_to_tensor(max_length)
            check_integers("max_length", limit)
            limit = ops.cast(limit, "int32")
        if not (growing_buffer.supports_growth() and self.decoder.can_exceed_max_length):
            limit = ops.minimum(limit, self.max_length)
        source_lengths = sum_int32(encoder_mask, axis=1)  # (B,)
        max_lengths = ops.zeros_like(source_lengths) + limit
        if self.relative_max_length is not None:
            factor, margin = self.relative_max_length
            relative = factor * ops.cast(source_lengths, "float32") + margin
            # Cast only limits below `max_lengths`: larger limits may exceed int32.
            is_lower = relative < ops.cast(max_lengths, "float32")
            max_lengths = ops.where(is_lower, ops.cast(relative, "int32"), max_lengths)
        return ops.maximum(max_lengths, 0)

    @property
    def num_open_hypotheses(self) -> int:
        """Int, number of open hypotheses per batch entry. A call can reduce it, see `width`."""
        return 1

    def width(self, carry: TensorDict, settings: Mapping[str, Any]) -> int | Tensor:
        """Returns the number of open hypotheses per batch entry in a call.

        Args:
            carry: Dict returned by `prepare` or `advance`.
            settings: Dict returned by `call_settings`.
        """
        return self.num_open_hypotheses

    def alignments_dtype(self, state: TensorDict) -> Any:
        """Returns the dtype of the attention weights in the decoder state.

        Args:
            state: State of the decoder.

        Raises:
            ValueError: If the state has no attention weights.
        """
        if "alignments" not in state:
            raise ValueError(
                "Expected a decoder with attention for return_alignments or coverage_penalty. "
                f"Received: decoder={self.decoder.name!r} without attention to the source. Set "
                "return_alignments=False and coverage_penalty=0."
            )
        return state["alignments"].dtype

    def start(
        self,
        memory: TensorDict,
        max_lengths: Tensor,
        encoder_mask: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        """Returns the carry before the first token."""
        raise NotImplementedError(f"{type(self).__name__} must override `start`.")

    def advance(
        self,
        carry: TensorDict,
        memory: TensorDict,
        max_lengths: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        """Returns the carry after the next token.

        Args:
            carry: Dict returned by `prepare` or `advance`.
            memory: Second result of `prepare`.
            max_lengths: Third result of `prepare`.
            settings: Dict returned by `call_settings`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `advance`.")

    def finish(
        self, hypotheses: TensorDict, num_hypotheses: int | Tensor | None = None
    ) -> TensorDict:
        """Converts hypotheses to the results of `call`.

        Args:
            hypotheses: `carry["hypotheses"]` after the last step. `num_tokens` includes the end
                token or stop sequence. With `stop_sequences`, `num_end_tokens` is its length.
            num_hypotheses: Int or scalar int32 tensor, number of hypotheses in the results.
                Defaults to `None`: the constructor argument.
        """
        tokens, num_tokens = hypotheses["token_ids"], hypotheses["num_tokens"][:, :, None]
        time = ops.arange(ops.shape(tokens)[2], dtype="int32")  # (T,)
        results = dict(hypotheses)
        if self.stop_sequences:
            num_end_tokens = results.pop("num_end_tokens")  # (B, N)
        else:
            is_end = ops.equal(time + 1, num_tokens) & is_any_of(tokens, self.end_token_ids)
            num_end_tokens = ops.cast(ops.any(is_end, axis=2), "int32")  # (B, N)
        results["token_ids"] = ops.where(time < num_tokens, tokens, self.pad_token_id)
        results["lengths"] = results.pop("num_tokens") - num_end_tokens
        is_token = time < num_tokens  # (B, N, T)
        if "token_log_probs" in results:
            results["token_log_probs"] = ops.where(is_token, results["token_log_probs"], 0.0)
        if "alignments" in results:
            weights = results["alignments"]  # (B, N, T, S)
            nothing = ops.zeros((), weights.dtype)
            results["alignments"] = ops.where(is_token[..., None], weights, nothing)
        for name, padding in ((TOP_TOKEN_IDS, self.pad_token_id), (TOP_TOKEN_LOG_PROBS, 0.0)):
            if name in results:  # (B, N, T, k)
                results[name] = ops.where(is_token[..., None], results[name], padding)
        return results

    def partial(self, carry: TensorDict) -> Tensor:
        """Returns the currently best hypothesis of each batch entry.

        Args:
            carry: Dict returned by `advance`.

        Returns:
            Int32 tensor of shape `(batch, steps)`. If tensors cannot grow in a loop, the tensor has
            columns for all future steps. Finished hypotheses are followed by padding.
        """
        return carry["hypotheses"]["token_ids"][:, 0]

    def token_log_probs(
        self,
        carry: TensorDict,
        step_logits: Tensor,
        token_ids: Tensor,
        settings: Mapping[str, Any],
    ) -> tuple[Tensor, TensorDict]:
        """Returns the next tokens' log probabilities, before tokens are forbidden.

        They include the repetition penalty, token biases and rules.

        Args:
            carry: The carry.
            step_logits: Float32 tensor of shape `(batch * hypotheses, V)`.
            token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
            settings: Dict returned by `call_settings`.

        Returns:
            Tuple of a float32 tensor of shape `(batch * hypotheses, V)`, and the new rule states,
            as carry entries.
        """
        if is_set(settings["repetition_penalty"], 1):
            penalty = settings["repetition_penalty"]
            step_logits = penalize_repetition(step_logits, token_ids, carry["step"], penalty)
        width = self.width(carry, settings)
        log_probs = self.decoder.compute_log_probs(step_logits)
        if "token_bias" in carry:
            log_probs = add_token_bias(log_probs, carry["token_bias"], width)
        if not self.rules:
            return log_probs, {}
        log_probs, states = apply_rules(self.rules, carry, log_probs, token_ids, width)
        return log_probs, {STATES: states}

    def top_tokens(
        self,
        log_probs: Tensor,
        step_logits: Tensor,
        forced: tuple[Tensor, Tensor, Tensor] | None,
        rows: tuple[int | Tensor, int | Tensor],
    ) -> TensorDict:
        """Returns the most probable next tokens, see `find_top_tokens`.

        Args:
            log_probs: Float32 tensor of shape `(batch * hypotheses, V)`, without the tokens that
                the settings make impossible.
            step_logits: Float32 tensor of shape `(batch * hypotheses, V)`.
            forced: Result of `forced_tokens`. Within the prefix, the tokens are those of the
                decoder alone.
            rows: Tuple `(batch, hypotheses)`.
        """
        if forced is not None:
            _, _, is_forced = forced  # (B, 1)
            is_forced = is_forced & ops.ones((1, rows[1]), dtype="bool")  # (B, N)
            of_decoder = self.decoder.compute_log_probs(step_logits)  # (B*N, V)
            log_probs = ops.where(ops.reshape(is_forced, (-1, 1)), of_decoder, log_probs)
        return find_top_tokens(log_probs, self.return_top_tokens, rows)

    def forbid_repetition(
        self, log_probs: Tensor, token_ids: Tensor, step: int | Tensor, settings: Mapping[str, Any]
    ) -> Tensor:
        """Makes tokens impossible that would repeat an n-gram or complete a suppressed sequence.

        Args:
            log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
            token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
            step: Scalar int32 tensor, number of previous tokens.
            settings: Dict returned by `call_settings`.

        Returns:
            Float32 tensor of shape `(batch * hypotheses, V)`.
        """
        if self.no_repeat_ngram_size:
            most, size = self.no_repeat_ngram_size, settings["no_repeat_ngram_size"]
            log_probs = forbid_repeated_ngrams(log_probs, token_ids, step, most, size)
        if self.suppressed_sequences:
            log_probs = suppress_sequences(log_probs, token_ids, step, self.suppressed_sequences)
        return log_probs

    def find_stops(self, carry: TensorDict, token_ids: Tensor) -> StopMatches | None:
        """Returns the stop sequences that the next tokens can complete, `None` if there are none.

        Args:
            carry: The carry.
            token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        """
        if not self.stop_sequences:
            return None
        return find_stops(token_ids, carry["step"], self.stop_sequences, carry.get("prefix"))

    def forbid_early_stops(
        self,
        log_probs: Tensor,
        stops: StopMatches | None,
        step: int | Tensor,
        settings: Mapping[str, Any],
    ) -> Tensor:
        """Makes the last tokens in stop sequences impossible before `min_length` other tokens.

        Args:
            log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
            stops: Result from `find_stops`.
            step: Scalar int32 tensor, number of previous tokens.
            settings: Dict returned by `call_settings`.

        Returns:
            Float32 tensor of shape `(batch * hypotheses, V)`.
        """
        if stops is None or not is_set(settings["min_length"], 0):
            return log_probs
        return stops.forbid_early(log_probs, step, settings["min_length"])

    def forced_tokens(
        self, carry: TensorDict, step_logits: Tensor, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Returns the prefix tokens of the current step, see `prefix.forced_tokens`."""
        return prefix.forced_tokens(
            carry,
            lambda: self.decoder.compute_log_probs(step_logits),
            self.width(carry, settings),
            len(self.forced_prefix_ids) if self.score_prefix else None,
        )

    def penalties(
        self, vocabulary_size: int, step: int | Tensor, settings: Mapping[str, Any]
    ) -> Tensor:
        """Returns the penalties to add to the log probabilities, float32 `(V,)`."""
        least = settings["min_length"]
        return token_penalties(
            vocabulary_size, self.suppressed_token_ids, self.end_token_ids, step, least
        )

    def penalized_token_ids(self, settings: Mapping[str, Any]) -> set[int]:
        """Returns the ids of tokens that can have a negative penalty in `penalties`."""
        is_limited = is_set(settings["min_length"], 0)
        return {*self.suppressed_token_ids, *(self.end_token_ids if is_limited else [])}

    def may_reach_dead_end(self, vocabulary_size: int, settings: Mapping[str, Any]) -> bool:
        """Returns whether a hypothesis can have no possible next token (a dead end).

        A beam search checks for dead ends only if this method returns `True`, or if a call has
        token biases. The check needs about 20 operators per step.

        Args:
            vocabulary_size: Int, number of tokens.
            settings: Dict returned by `call_settings`.
        """
        last = {sequence[-1] for sequence in self.stop_sequences}
        return (
            self.no_repeat_ngram_size > 0
            or bool(self.suppressed_sequences)
            or self.decoder.forbids_tokens
            or any(rule.forbids_tokens for rule in self.rules)
            or len(self.penalized_token_ids(settings) | last) == vocabulary_size
        )

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # the source mask does not apply to the results

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop(LORA, None)  # the configuration of the decoder has its low-rank updates
        return {
            **config,
            "decoder": serialize_shared(self.decoder),
            **{each.name: getattr(self, each.name) for each in dataclasses.fields(self)},
            "rules": [serialize_shared(rule) for rule in self.rules],
        }

    def _advice_for(self, name):
        return other_name_hint(name) or super()._advice_for(name)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        decoder = deserialize_shared(config["decoder"])
        rules = [deserialize_shared(rule) for rule in config.get("rules", [])]
        return cls(**{**config, "decoder": decoder, "rules": rules})


def is_set(value: Any, neutral: float) -> bool:
    """Returns whether a setting can have an effect: a tensor, or not the neutral value."""
    return not is_number(value) or value != neutral
