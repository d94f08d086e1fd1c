import math
import numbers

import keras
from keras import ops

from keras_attn._backend.integers import sum_int32
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import check_integers, check_token_ids, is_finite
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.decoders.step_decoder import StepDecoder
from keras_attn.masks import broadcast_batch, join
from keras_attn.search import logits, prefix
from keras_attn.search.length_penalty import FORMS
from keras_attn.search.loop import run_search
from keras_attn.search.repetition import forbid_repeated_ngrams, penalize_repetition


class Search(Layer):
    """Base of all searches: the loop around the steps of a decoder.

    A search is three functions over a *carry*, a nested dict of tensors: `prepare` makes it (by the
    search's own `start`), `advance` takes it one token further, `finish` turns its `hypotheses`
    into results. `call` runs them, with the loop in the graph: see `keras_attn.search.loop`, which
    tells what a carry holds. A host that runs the loop itself looks at `done`, and at `partial`.

    Args:
        decoder: a `StepDecoder`.
        max_length: int, most tokens of a hypothesis, the end token included; fewer where the
            decoder has learned fewer positions. Default 256.
        relative_max_length: tuple `(factor, margin)`: a hypothesis has at most `factor * source
            length + margin` tokens, none if that is negative. `None` for no such limit. Default
            `(2, 10)`.
        min_length: int, fewest tokens of a hypothesis, without the end token. Default 0.
        length_penalty: float, exponent of the length. Default 1. Not far below zero: a score below
            -1e9 is one that no hypothesis has.
        length_penalty_form: `"average"`, `"average_with_end"`, `"gnmt"` or `"none"`, see
            `keras_attn.search.length_penalty`. Default `"average"`.
        start_token_id: int >= 0. Default 1.
        end_token_id: int >= 0. Default 2.
        pad_token_id: int >= 0. Default 0.
        suppressed_token_ids: list of int >= 0 that are never chosen. Default `None`: padding and
            start, unless they are the end too.
        repetition_penalty: float > 0, above 1 makes the tokens that a hypothesis has less probable,
            see `keras_attn.search.repetition`. It is applied to the logits; Hugging Face's beam
            search applies it to the log probabilities. Default 1: as probable as they are. Of this
            and the next one, a prompt is no part of the hypothesis, a prefix is. `log_probs` are
            then those of the changed logits, but for the tokens of a prefix.
        no_repeat_ngram_size: int >= 0, a hypothesis has no sequence of so many tokens twice.
            Default 0: it may have.
        return_alignments: bool, whether to return the attention weights. Default `False`.
        return_token_log_probs: bool, whether to return the log probability of each token. Default
            `False`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        encoder_outputs: `(batch, source, features)`, or a dict of several for a decoder with
            `CombinedAttention`.
        encoder_mask: boolean `(batch, source)`, True = may be attended; a dict as above. It is
            joined with the implicit mask. Without any mask, all positions may be attended.
        encoder_state: last state of the encoder, nested, or `None`.
        query_features: `(batch, features)`, for a decoder whose queries have them.
        prefix_ids: int `(batch, prefix)`, what every hypothesis begins with, such as the tag of a
            language, padded on the right; `(1, prefix)` for all alike. These tokens count like
            others, for the limit, for the length and with their log probabilities. Default `None`:
            nothing.
        seeds: int32 `(batch,)`, of a search that draws at random, what decides what is drawn;
            `(1,)` for all alike.
        max_length: int or int32 scalar that replaces the argument above. Where the state of the
            decoder cannot grow in a loop (on JAX, and see `StepDecoder.can_exceed_max_length`), a
            larger value is replaced by the argument.
        length_penalty: float or float32 scalar that replaces the argument above.
        mask, encoder_outputs_mask: the implicit mask of `encoder_outputs`, or a dict of them,
            passed by Keras as `mask` if there is no other input.

    Returns:
        Dict of, best hypothesis first:
        `token_ids` int32 `(batch, hypotheses, time)`, with the end token where there was one, then
        padding; `lengths` int32 `(batch, hypotheses)`, tokens without the end token;
        `scores` float32 `(batch, hypotheses)`, as ranked: natural-log probability over length
        penalty, and the coverage penalty of a beam search; `log_probs` float32
        `(batch, hypotheses)`, natural-log probability of all tokens and the end token;
        `alignments` float `(batch, hypotheses, time, source)`, on request;
        `token_log_probs` float32 `(batch, hypotheses, time)`, on request: natural-log probability
        of each token and of the end token, given what is before it, whose sum is `log_probs`.
        A hypothesis that does not exist (fewer were found than asked for) has score and log
        probability -1e9. A hypothesis after which no token is possible, a dead end, is returned as
        if the maximum length had cut it there: without an end token, with its own score. It ranks
        below all hypotheses that have ended.

    Attributes:
        is_stochastic: bool, whether tokens are drawn at random, with `seeds`.

    Raises:
        ValueError: for arguments out of range, or `seeds` for a search that is not stochastic.
    """

    is_stochastic = False

    is_container = True

    def __init__(
        self,
        decoder,
        max_length=256,
        relative_max_length=(2, 10),
        min_length=0,
        length_penalty=1.0,
        length_penalty_form="average",
        start_token_id=1,
        end_token_id=2,
        pad_token_id=0,
        suppressed_token_ids=None,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        return_alignments=False,
        return_token_log_probs=False,
        **kwargs,
    ):
        kwargs.setdefault("autocast", False)  # a length penalty in float16 would be another one
        super().__init__(**kwargs)
        self.supports_masking = True
        lengths = (min_length, max_length)
        whole = all(isinstance(each, numbers.Real) and each % 1 == 0 for each in lengths)
        if not whole or not 0 <= min_length <= max_length < 2**31:
            raise ValueError(
                "Expected whole numbers, 0 <= min_length <= max_length < 2**31. "
                f"Received: min_length={min_length}, max_length={max_length}."
            )
        if not is_finite(length_penalty):
            raise ValueError(
                "length_penalty must be a finite number. "
                f"Received: length_penalty={length_penalty!r}."
            )
        if length_penalty_form not in FORMS:
            raise ValueError(
                f"length_penalty_form must be one of {FORMS}. "
                f"Received: length_penalty_form={length_penalty_form!r}."
            )
        if relative_max_length is not None and (
            not isinstance(relative_max_length, (tuple, list))
            or len(relative_max_length) != 2
            or not all(isinstance(number, numbers.Real) for number in relative_max_length)
            or any(math.isnan(number) for number in relative_max_length)
        ):
            raise ValueError(
                "relative_max_length must be a pair of numbers (factor, margin) or None. "
                f"Received: relative_max_length={relative_max_length!r}."
            )
        check_token_ids(
            start_token_id=start_token_id, end_token_id=end_token_id, pad_token_id=pad_token_id
        )
        if suppressed_token_ids is None:
            suppressed_token_ids = sorted({pad_token_id, start_token_id} - {end_token_id})
        elif isinstance(suppressed_token_ids, str) or not hasattr(suppressed_token_ids, "__iter__"):
            raise ValueError(
                "suppressed_token_ids must be a list of ids or None. "
                f"Received: suppressed_token_ids={suppressed_token_ids!r}."
            )
        suppressed_token_ids = list(suppressed_token_ids)
        check_token_ids(suppressed_token_ids=suppressed_token_ids)
        for name, value in (
            ("return_alignments", return_alignments),
            ("return_token_log_probs", return_token_log_probs),
        ):
            if value not in (True, False):
                raise ValueError(f"{name} must be True or False. Received: {name}={value!r}.")
        if not is_finite(repetition_penalty) or repetition_penalty <= 0:
            raise ValueError(
                "repetition_penalty must be a positive and finite number. "
                f"Received: repetition_penalty={repetition_penalty!r}."
            )
        if not isinstance(no_repeat_ngram_size, numbers.Integral) or no_repeat_ngram_size < 0:
            raise ValueError(
                "no_repeat_ngram_size must be a whole number, 0 for none. "
                f"Received: no_repeat_ngram_size={no_repeat_ngram_size!r}."
            )
        if not isinstance(decoder, StepDecoder):
            raise ValueError(
                f"decoder must be a StepDecoder. Received: decoder={type(decoder).__name__}."
            )
        self.decoder = decoder
        # Python's integers: those of NumPy have types of their own in a graph, and no JSON.
        self.max_length = int(max_length)
        self.relative_max_length = relative_max_length
        self.min_length = int(min_length)
        self.length_penalty = float(length_penalty)
        self.length_penalty_form = length_penalty_form
        self.start_token_id = int(start_token_id)
        self.end_token_id = int(end_token_id)
        self.pad_token_id = int(pad_token_id)
        self.suppressed_token_ids = [int(token_id) for token_id in suppressed_token_ids]
        self.repetition_penalty = float(repetition_penalty)
        self.no_repeat_ngram_size = int(no_repeat_ngram_size)
        self.return_alignments = return_alignments
        self.return_token_log_probs = return_token_log_probs
        self.supports_jit = not growing_buffer.supports_growth()

    def build(
        self,
        encoder_outputs_shape,
        encoder_mask_shape=None,
        encoder_state_shape=None,
        query_features_shape=None,
    ):
        shapes = [encoder_outputs_shape, encoder_mask_shape, encoder_state_shape]
        if query_features_shape is not None:
            shapes.append(query_features_shape)
        ensure_built(self.decoder, (None, None), *shapes)

    def call(
        self,
        encoder_outputs,
        encoder_mask=None,
        encoder_state=None,
        max_length=None,
        length_penalty=None,
        query_features=None,
        prefix_ids=None,
        seeds=None,
        mask=None,
        encoder_outputs_mask=None,
    ):
        encoder_mask = join(
            encoder_outputs,
            encoder_mask=encoder_mask,
            mask=mask,
            encoder_outputs_mask=encoder_outputs_mask,
        )
        if seeds is not None and not self.is_stochastic:
            raise ValueError(
                "Expected seeds only for a stochastic search, such as SamplingDecoder. Received: "
                f"seeds for {type(self).__name__}. Leave seeds out."
            )
        given = {"query_features": query_features, "seeds": seeds}
        given = {name: value for name, value in given.items() if value is not None}
        carry, memory, max_lengths = self.prepare(
            encoder_outputs, encoder_mask, encoder_state, max_length, prefix_ids, **given
        )
        penalty = self.length_penalty if length_penalty is None else length_penalty
        penalty = ops.cast(penalty, "float32")
        hypotheses = run_search(
            lambda carry, memory, max_lengths: self.advance(carry, memory, max_lengths, penalty),
            self.decoder,
            carry,
            memory,
            max_lengths,
            self.num_open_hypotheses,
        )
        return self.finish(hypotheses)

    def prepare(
        self,
        encoder_outputs,
        encoder_mask=None,
        encoder_state=None,
        max_length=None,
        prefix_ids=None,
        **features,
    ):
        """All that the steps of a search work with.

        Args:
            encoder_outputs, encoder_mask, encoder_state, max_length, prefix_ids, **features: see
                Call arguments.

        Returns:
            Tuple of the carry before the first token, the memory of the decoder, and the maximum
            lengths, int32 `(batch,)`: the arguments of `advance`.
        """
        if self.decoder.can_exceed_max_length and not growing_buffer.supports_growth():
            raise ValueError(
                "Only on TensorFlow a state can grow in a search. Received: growing_cache=True of "
                f"{self.decoder.name!r}, on {keras.backend.backend()}. Leave it out."
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
        carry = self.start(memory, max_lengths, source_mask)
        if prefix_ids is not None:
            prefix_ids = ops.convert_to_tensor(prefix_ids)
            prefix.check_prefix(prefix_ids, self.pad_token_id, get_vocabulary_size(self.decoder))
            carry["prefix"] = prefix.free_behind(prefix_ids, max_lengths, self.pad_token_id)
        return carry, memory, max_lengths

    def compute_max_lengths(self, encoder_mask, max_length=None):
        """Computes the maximum number of tokens of each sentence, the end token included.

        Args:
            encoder_mask: boolean `(batch, source)`.
            max_length: int or int32 scalar, or `None` for the search's own.

        Returns:
            int32 `(batch,)`.
        """
        if isinstance(max_length, numbers.Real) and max_length % 1 == 0:
            max_length = int(max_length)
        limit = self.max_length if max_length is None else ops.convert_to_tensor(max_length)
        if max_length is not None:
            check_integers("max_length", limit)
        limit = ops.cast(limit, "int32")
        if not (growing_buffer.supports_growth() and self.decoder.can_exceed_max_length):
            limit = ops.minimum(limit, self.max_length)
        source_lengths = sum_int32(encoder_mask, axis=1)  # (B,)
        max_lengths = ops.zeros_like(source_lengths) + limit
        if self.relative_max_length is not None:
            factor, margin = self.relative_max_length
            relative = factor * ops.cast(source_lengths, "float32") + margin
            # A relative limit that is not lower may be too large for an integer.
            is_lower = relative < ops.cast(max_lengths, "float32")
            max_lengths = ops.where(is_lower, ops.cast(relative, "int32"), max_lengths)
        return ops.maximum(max_lengths, 0)

    @property
    def num_open_hypotheses(self):
        """int, hypotheses of a sentence that are open at once."""
        return 1

    def alignments_dtype(self, state):
        """The type of the attention weights in a state of the decoder, which must have some."""
        if "alignments" not in state:
            raise ValueError(
                "return_alignments=True and a coverage_penalty need a decoder with attention. "
                f"Received: decoder={self.decoder.name!r}, whose state has no alignments."
            )
        return state["alignments"].dtype

    def start(self, memory, max_lengths, encoder_mask):
        """The carry before the first token."""
        raise NotImplementedError(f"{type(self).__name__} must override `start`.")

    def advance(self, carry, memory, max_lengths, length_penalty):
        """The carry after one more token."""
        raise NotImplementedError(f"{type(self).__name__} must override `advance`.")

    def finish(self, hypotheses):
        """The results, see Returns, of hypotheses whose `num_tokens` count the end token."""
        tokens, num_tokens = hypotheses["token_ids"], hypotheses["num_tokens"][:, :, None]
        time = ops.arange(ops.shape(tokens)[2], dtype="int32")  # (T,)
        is_end = ops.equal(time + 1, num_tokens) & ops.equal(tokens, self.end_token_id)
        has_end = ops.cast(ops.any(is_end, axis=2), "int32")  # (B, N)
        results = {
            **hypotheses,
            "token_ids": ops.where(time < num_tokens, tokens, self.pad_token_id),
            "lengths": hypotheses["num_tokens"] - has_end,
        }
        del results["num_tokens"]
        is_token = time < num_tokens  # (B, N, T)
        if "token_log_probs" in results:
            results["token_log_probs"] = ops.where(is_token, results["token_log_probs"], 0.0)
        if "alignments" in results:
            weights = results["alignments"]  # (B, N, T, S)
            nothing = ops.zeros((), weights.dtype)
            results["alignments"] = ops.where(is_token[..., None], weights, nothing)
        return results

    def partial(self, carry):
        """The best tokens of each sentence so far, and its result once it is done.

        Args:
            carry: as from `advance`.

        Returns:
            int32 `(batch, steps)`, with columns for all steps to come where tensors cannot grow;
            padding follows what has ended.
        """
        return carry["hypotheses"]["token_ids"][:, 0]

    def next_log_probs(self, step_logits, token_ids, step):
        """Log probabilities of the next tokens, before `penalties` makes some impossible.

        Args:
            step_logits: float32 `(batch * hypotheses, V)`.
            token_ids: int32 `(batch, hypotheses, steps)`, the tokens so far.
            step: int32 scalar, how many these are.

        Returns:
            float32 `(batch * hypotheses, V)`.
        """
        if self.repetition_penalty != 1:
            step_logits = penalize_repetition(step_logits, token_ids, step, self.repetition_penalty)
        log_probs = ops.log_softmax(step_logits)
        if self.no_repeat_ngram_size:
            size = self.no_repeat_ngram_size
            log_probs = forbid_repeated_ngrams(log_probs, token_ids, step, size)
        return log_probs

    def forced_tokens(self, carry, step_logits):
        """See `prefix.forced_tokens`."""
        return prefix.forced_tokens(carry, step_logits, self.num_open_hypotheses, self.pad_token_id)

    def penalties(self, vocabulary_size, step):
        """What is added to the log probability of each token, float32 `(V,)`."""
        return logits.penalties(
            vocabulary_size, self.suppressed_token_ids, self.end_token_id, step, self.min_length
        )

    @property
    def penalized_token_ids(self):
        """Set of int, the tokens whose log probability `penalties` may lower."""
        return {*self.suppressed_token_ids, *([self.end_token_id] if self.min_length else [])}

    def may_reach_dead_end(self, vocabulary_size):
        """Whether a hypothesis may have no possible continuation, by the rules or the decoder.

        A beam search looks for dead ends only then, because that takes about 20 operators a step.
        """
        return (
            self.no_repeat_ngram_size > 0
            or self.decoder.forbids_tokens
            or len(self.penalized_token_ids) == vocabulary_size
        )

    def compute_mask(self, inputs, previous_mask):
        return None  # hypotheses have lengths of their own

    def get_config(self):
        return {
            **super().get_config(),
            "decoder": serialize_shared(self.decoder),
            "max_length": self.max_length,
            "relative_max_length": self.relative_max_length,
            "min_length": self.min_length,
            "length_penalty": self.length_penalty,
            "length_penalty_form": self.length_penalty_form,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
            "pad_token_id": self.pad_token_id,
            "suppressed_token_ids": self.suppressed_token_ids,
            "repetition_penalty": self.repetition_penalty,
            "no_repeat_ngram_size": self.no_repeat_ngram_size,
            "return_alignments": self.return_alignments,
            "return_token_log_probs": self.return_token_log_probs,
        }

    @classmethod
    def from_config(cls, config):
        decoder = deserialize_shared(config["decoder"])
        return cls(**{**config, "decoder": decoder})
