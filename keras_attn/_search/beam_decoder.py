import functools
from collections.abc import Mapping
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops, tree

from keras_attn._backend import gather
from keras_attn._backend.integers import sum_int32
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._search.beam_groups import (
    first_open,
    first_open_in_order,
    group_size,
    is_repeated,
)
from keras_attn._search.candidates import find_candidates
from keras_attn._search.constraints import (
    Constraints,
    broadcast_constraints,
    check_constraints,
    forbid_end,
    require_phrases,
)
from keras_attn._search.coverage_penalty import coverage_penalty
from keras_attn._search.dead_ends import NO_RANK, ranks_of_dead_ends, ranks_to_scores
from keras_attn._search.end_tokens import Ends, keep_most_probable
from keras_attn._search.histories import extend_histories, requested_histories
from keras_attn._search.hypothesis_pool import add_to_pool, new_pool, resize_pool
from keras_attn._search.length_penalty import best_attainable, divisor
from keras_attn._search.search import WORD_STARTS, Search
from keras_attn._types import Tensor, TensorDict, TensorLike
from keras_attn_checks.number_types import is_integer, is_number
from keras_attn_checks.options import list_options
from keras_attn_checks.search_options import BeamArguments, BeamOptions


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(Search)
class BeamDecoder(Search, BeamOptions):
    """Beam search with a pool of finished hypotheses.

        score(y) = log p(y) / length_penalty(|y|) + coverage_penalty(y)

    A continuation is an open beam with one additional token. Each step selects the `2 * beam_width`
    most probable continuations and sorts them. Continuations with equal log probabilities are
    sorted by the index of their beam, then by the id of the new token. Each beam has one
    continuation with the end token, so at least `beam_width` of the selected continuations remain
    open. Of the first `beam_width` continuations, those that end with the end token or reach the
    length limit are finished hypotheses. They move to the pool, which ranks them by score.

    CTranslate2 and fairseq use the same algorithm, but their lengths include the end token. To
    obtain the same ranking, use `length_penalty_form="average_with_end"`.

    A beam is a dead end if all its next tokens are impossible. If more than `beam_width` selected
    continuations are possible, the next step continues `beam_width` of them, and dead ends are
    dropped. Otherwise, each dead end moves to the pool without a new token, and ranks below all
    finished hypotheses. In diverse beam search, this rule applies to each group of beams.

    `stop` selects when the search of a batch entry stops. Each value corresponds to a value of
    `early_stopping` in Hugging Face's transformers:

        stop        early_stopping   the search stops when
        collected   True             beam_width * patience hypotheses are finished
        heuristic   False            beam_width hypotheses are finished, and no open hypothesis has
                                     a better score at its current length
        exact       "never"          no open hypothesis can become one of the best num_hypotheses

    `"heuristic"` is the default of transformers. With a positive length penalty, the score of an
    open hypothesis can increase in later steps. The heuristic does not consider later steps, so it
    can miss the hypothesis with the best score. `"exact"` assumes that log probabilities are not
    positive, so it can miss that hypothesis if a token bias or a rule adds positive values. With
    `length_penalty_form="average_with_end"`, each value of `stop` finds the same hypotheses as the
    corresponding value of `early_stopping`.

    With `num_groups > 1`, the search is diverse beam search with Hamming diversity ([Vijayakumar et
    al., 2018](https://arxiv.org/abs/1610.02424)): the beams are divided into groups, and each group
    is penalized for tokens that previous groups have selected in the same step. Group g ranks its
    continuations by this value:

        log p(y) - diversity_strength * sum_{h < g} n_h(y)

    Here, y is a continuation of a beam of group g, and n_h(y) is the number of continuations of
    group h whose new token equals the new token of y. If a group has M beams, only the M best
    continuations of group h are counted. The returned scores and log probabilities do not include
    the diversity penalty.

    A call with `constraint_ids` requires phrases in each hypothesis. The algorithm follows [Post
    and Vilar, 2018](https://aclanthology.org/N18-1119) and the vectorized form by [Hu et al.,
    2019](https://aclanthology.org/N19-1090). The candidates then also contain each beam's best
    continuation and the tokens that continue its missing phrases. A bank contains the candidates
    that miss the same number of tokens; only the phrase with the most tokens so far counts as
    begun. The best candidates in all banks come first, beginning with the fewest missing tokens,
    then the second best ones, and so on. An end token is impossible before all phrases have
    occurred. If the length limit ends a hypothesis earlier, it ranks below all complete ones, by
    missing phrases and then by score. In any order, phrases may overlap, and one occurrence
    satisfies a phrase that is given twice. `no_repeat_ngram_size` and `suppressed_sequences` do not
    apply to tokens that continue a phrase. A stop sequence is impossible, like an end token, until
    all phrases have occurred before its last token.

    Args:
        decoder: `StepDecoder`.
        {{options}}
        {{arguments}}

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

        The results contain `num_hypotheses` hypotheses per batch entry. If a call has a smaller
        `beam_width`, the hypotheses beyond this number are missing.

    Raises:
        ValueError: If an argument is out of range, or if `coverage_penalty` or `return_alignments`
            is used with a decoder that has no attention.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BeamDecoder, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = BeamDecoder(decoder, beam_width=3, num_hypotheses=2, max_length=3)
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(results["scores"].shape)
    (1, 2)
    """

    @list_options(BeamOptions)
    def __init__(self, decoder: StepDecoder, **options: Unpack[BeamArguments]) -> None:
        super().__init__(decoder, **options)

    @property
    def runtime_settings(self) -> dict[str, str]:
        needed = {
            "patience": self.stop == "collected",
            "coverage_penalty": self.coverage_penalty > 0,
            "diversity_strength": self.num_groups > 1,
            "beam_width": self.beam_width > 1 and self.num_groups == 1,
            "num_hypotheses": self.beam_width > 1,
        }
        names = super().runtime_settings
        return {name: dtype for name, dtype in names.items() if needed.get(name, True)}

    @property
    def accepts_constraints(self) -> bool:
        return self.num_groups == 1

    def width(self, carry: TensorDict, settings: Mapping[str, Any]) -> int | Tensor:
        return carry.get("width", settings["beam_width"])

    @property
    def num_open_hypotheses(self) -> int:
        return self.beam_width

    @property
    def largest_settings(self) -> dict[str, int]:
        return {**super().largest_settings, "num_hypotheses": self.beam_width}

    def pool_size(
        self, beam_width: int | Tensor, num_hypotheses: int | Tensor | None = None
    ) -> int | Tensor:
        """Returns the number of finished hypotheses that are kept per batch entry.

        Args:
            beam_width: Int or scalar int32 tensor, number of beams in a call.
            num_hypotheses: Int or scalar int32 tensor, number of returned hypotheses. Defaults to
                `None`: the constructor argument.
        """
        count = self.num_hypotheses if num_hypotheses is None else num_hypotheses
        if self.stop == "heuristic":
            return beam_width
        if is_integer(beam_width) and is_integer(count):
            return min(beam_width, count)
        return 1 if is_integer(count) and count == 1 else ops.minimum(beam_width, count)

    def start(
        self,
        memory: TensorDict,
        max_lengths: Tensor,
        encoder_mask: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        batch, source = ops.shape(encoder_mask)[0], ops.shape(encoder_mask)[1]
        beam_width = settings["beam_width"]
        num_hypotheses = settings["num_hypotheses"]
        pool_size = self.pool_size(beam_width, num_hypotheses)
        rows = (batch, beam_width)
        first_tokens = self.decoder.first_token_ids(memory, self.start_token_id)
        # At the first step all beams are equal, so only the first beam of each group may continue.
        size = group_size(beam_width, self.num_groups)
        is_possible = ops.mod(ops.arange(beam_width, dtype="int32"), size) == 0
        log_probs = ops.cast(ops.where(is_possible, 0.0, IMPOSSIBLE), "float32")
        carry = {
            "step": ops.zeros((), dtype="int32"),
            "done": max_lengths == 0,
            "collected": ops.zeros_like(max_lengths),
            "state": self.decoder.initial_state(
                memory, beam_width, self._needs_alignments, max(1, self.max_length)
            ),
            "beams": {
                "token_ids": growing_buffer.new_buffer(rows, (), "int32", self.max_length),
                "last": ops.broadcast_to(first_tokens[:, None], rows),
                "log_probs": ops.zeros(rows, "float32") + log_probs,
            },
            "hypotheses": new_pool(max_lengths, pool_size, self.max_length),
        }
        if not is_integer(beam_width):
            carry["width"] = beam_width
        if not is_integer(num_hypotheses):
            carry["count"] = num_hypotheses
        if self.stop_sequences:
            number = ops.zeros_like(carry["hypotheses"]["num_tokens"])
            carry["hypotheses"]["num_end_tokens"] = number
        if self.coverage_penalty:
            self.alignments_dtype(carry["state"])  # raises an error if there are no weights
            carry["beams"]["coverage"] = ops.zeros((*rows, source), dtype="float32")
        for name, width in (("beams", beam_width), ("hypotheses", pool_size)):
            carry[name] |= requested_histories(self, carry["state"], (batch, width), source)
        return carry

    def prepare(
        self,
        *args: Any,
        constraint_ids: TensorLike | None = None,
        constraints_in_order: bool | Tensor = False,
        **kwargs: Any,
    ) -> tuple[TensorDict, TensorDict, Tensor]:
        carry, memory, max_lengths = super().prepare(*args, **kwargs)
        if constraint_ids is None:
            return carry, memory, max_lengths
        constraint_ids = ops.convert_to_tensor(constraint_ids)
        check_constraints(
            constraint_ids,
            max_lengths,
            get_vocabulary_size(self.decoder),
            self.end_token_ids,
            self.suppressed_token_ids,
            [*self.suppressed_sequences, *self.stop_sequences],
        )
        constraints = {"ids": broadcast_constraints(constraint_ids, max_lengths)}
        if constraints_in_order is not False:
            constraints["in_order"] = ops.convert_to_tensor(constraints_in_order, dtype="bool")
        start = Constraints(**constraints).start(carry["beams"]["last"])
        rows = ops.zeros_like(carry["hypotheses"]["ranks"], dtype="bool")[:, :, None]
        hypotheses = {**carry["hypotheses"], "constraints_met": rows | (start["met"][:, :1] > 0)}
        carry = {
            **carry,
            "constraints": constraints,
            "beams": {**carry["beams"], "constraints": start},
            "hypotheses": hypotheses,
        }
        return carry, memory, max_lengths

    @property
    def _needs_alignments(self):
        """Bool, whether the search needs the attention weights of each step."""
        return bool(self.return_alignments or self.coverage_penalty)

    def advance(
        self,
        carry: TensorDict,
        memory: TensorDict,
        max_lengths: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        length_penalty = settings["length_penalty"]
        step, beams, beam_width = carry["step"], carry["beams"], self.width(carry, settings)
        last = ops.reshape(beams["last"], (-1,))  # (B*K,)
        step_logits, state = self.decoder.step(last, carry["state"], memory)
        at_limit = step + 1 >= max_lengths  # (B,)
        ends = Ends(self.end_token_ids, self.find_stops(carry, beams["token_ids"]))
        candidates, rule_states, of_parents = self._find_candidates(
            step_logits, carry, at_limit, ends, settings
        )
        if self._needs_alignments:
            source = ops.shape(state["alignments"])[1]
            shape = (ops.shape(max_lengths)[0], beam_width, source)
            of_parents["alignments"] = ops.reshape(state["alignments"], shape)
        histories = extend_histories(beams, candidates, of_parents, step)

        is_end, num_end_tokens = candidates.find_ends(ends)  # (B, 2K)
        is_dead_end = candidates.is_dead_end
        is_closed = is_end if is_dead_end is None else is_end | is_dead_end
        finished, constraints = {}, _constraints(carry, settings)
        if ends.stops is not None:
            finished["num_end_tokens"] = num_end_tokens
        if constraints is not None:
            state_of_phrases = constraints.following(beams["constraints"], candidates, is_closed)
            histories = {**histories, "constraints": state_of_phrases}
            finished["constraints_met"] = constraints.done(state_of_phrases) > 0  # (B, 2K, P)
        pool, ended = self._collect(
            carry,
            candidates,
            {**histories, **finished},
            is_end,
            at_limit,
            max_lengths,
            settings,
        )
        collected = carry["collected"] + sum_int32(ended, axis=1)

        log_probs = ops.where(is_closed, 2 * IMPOSSIBLE, candidates.log_probs)
        if constraints is None:
            chosen = first_open(log_probs, is_closed, beam_width, self.num_groups)  # (B, K)
        else:  # the candidates are not sorted by log probability
            chosen = first_open_in_order(is_closed, beam_width)
        following = {**histories, "log_probs": log_probs, "last": candidates.token_ids}
        beams = tree.map_structure(lambda t: gather.gather_beams(t, chosen), following)
        parents = gather.gather_beams(candidates.parents, chosen)  # (B, K)
        # Take the batch size from `max_lengths`, whose shape does not change in the inner loop.
        rows = gather.flat_rows(parents, ops.shape(max_lengths)[0], beam_width)
        state, rule_states = gather.reorder(state, rows), gather.gather_leaves(rule_states, rows)

        best_open = ops.max(beams["log_probs"], axis=1)  # (B,)
        done = carry["done"] | at_limit | (best_open < IMPOSSIBLE / 2)
        if self.stop == "collected":
            done = done | (collected >= _num_collected(beam_width, settings["patience"]))
        else:
            form = self.length_penalty_form
            if self.stop == "heuristic":
                attainable = best_open / divisor(step + 1, False, length_penalty, form)
            else:
                shortest = self._shortest_length(step + 1)
                attainable = best_attainable(best_open, shortest, max_lengths, length_penalty, form)
            done = done | (pool["ranks"][:, -1] >= attainable)
        return {
            **carry,
            **rule_states,
            "step": step + 1,
            "done": done,
            "collected": collected,
            "state": state,
            "beams": beams,
            "hypotheses": pool,
        }

    def _shortest_length(self, num_tokens):
        """Returns the smallest final length that an open hypothesis can have."""
        longest = max(map(len, self.stop_sequences), default=1)
        return num_tokens if longest == 1 else ops.maximum(num_tokens - (longest - 1), 0)

    def partial(self, carry: TensorDict) -> Tensor:
        best = self.finish(carry["hypotheses"])["token_ids"][:, 0]  # (B, t)
        open_ids = carry["beams"]["token_ids"]  # (B, K, t)
        # The beams are not sorted across groups, and with constraints, complete ones come first.
        if self.num_groups > 1 or "constraints" in carry:
            _, first = top_k(carry["beams"]["log_probs"], 1)  # (B, 1)
            open_ids = gather.gather_beams(open_ids, first)  # (B, 1, t)
        return ops.where(carry["done"][:, None], best, open_ids[:, 0])

    def _find_candidates(self, step_logits, carry, at_limit, ends, settings):
        """Returns the candidates, the new rule states, and the most probable tokens of each beam.

        Args:
            step_logits: Float32 tensor of shape `(batch * beams, V)`.
            carry: Carry of the search.
            at_limit: Boolean tensor of shape `(batch,)`, whether this step is the last step of the
                batch entry.
            ends: `Ends`.
            settings: Dict returned by `call_settings`.
        """
        step, beams = carry["step"], carry["beams"]
        vocabulary_size = step_logits.shape[-1]
        finds_dead_ends = self.may_reach_dead_end(vocabulary_size, settings)
        finds_dead_ends = finds_dead_ends or "token_bias" in carry
        token_log_probs, rule_states = self.token_log_probs(
            carry, step_logits, beams["token_ids"], settings
        )
        log_probs = self.forbid_repetition(token_log_probs, beams["token_ids"], step, settings)
        log_probs = self.forbid_early_stops(log_probs, ends.stops, step, settings)
        end_ids = [each for each in ends.token_ids if each not in self.suppressed_token_ids]
        if len(end_ids) + len(self.stop_sequences) > 1:
            log_probs = keep_most_probable(log_probs, end_ids, ends.stops)
        penalties = self.penalties(vocabulary_size, step, settings)  # (V,)
        require, constraints = None, _constraints(carry, settings)
        if constraints is not None:
            done = constraints.done(beams["constraints"])  # (B, K, P)
            log_probs = forbid_end(log_probs, done, ends)
            required = token_log_probs
            if ends.stops is not None:
                required = forbid_end(required, done, ends)
            require = functools.partial(
                require_phrases,
                constraints=constraints,
                state=beams["constraints"],
                next_log_probs=log_probs,
                required_log_probs=required,
                beam_log_probs=beams["log_probs"],
                penalties=penalties,
                ends=ends,
                beam_width=self.width(carry, settings),
            )
        forced = self.forced_tokens(carry, step_logits, settings)
        top_tokens = {}
        if self.return_top_tokens:
            rows = (ops.shape(at_limit)[0], self.width(carry, settings))
            top_tokens = self.top_tokens(log_probs + penalties, step_logits, forced, rows)
        candidates = find_candidates(
            log_probs,  # (B*K, V)
            beams["log_probs"],
            penalties,
            self.penalized_token_ids(settings),
            forced,
            require=require,
            scored_log_probs=None if require is None else token_log_probs,
            beam_width=self.width(carry, settings),
            most_beams=self.beam_width,
            num_groups=self.num_groups,
            diversity_strength=settings["diversity_strength"],
            must_end=at_limit[:, None] if self.force_end_token else None,
            end_token_id=self.end_token_id,
            dead_end_token_id=self.pad_token_id if finds_dead_ends else None,
            with_token_log_probs=self.return_token_log_probs,
        )
        return candidates, rule_states, top_tokens

    def _collect(self, carry, candidates, histories, is_end, at_limit, max_lengths, settings):
        """Moves the hypotheses that finish at this step to the pool.

        Args:
            carry: Carry of the search.
            candidates: `Candidates`.
            histories: Dict returned by `extend_histories`, with `constraints_met` if the call has
                constraints, and `num_end_tokens` if the search has stop sequences.
            is_end: Boolean tensor of shape `(batch, 2 * beams)`, whether a candidate ends with its
                new token.
            at_limit: Boolean tensor of shape `(batch,)`, whether this step is the last step of the
                batch entry.
            max_lengths: Int32 tensor of shape `(batch,)`, maximum lengths of the hypotheses.
            settings: Dict returned by `call_settings`.

        Returns:
            Tuple of the pool and a boolean tensor `(batch, candidates)`: whether a candidate is
            finished. Dead ends do not count as finished.
        """
        step, pool, is_dead_end = carry["step"], carry["hypotheses"], candidates.is_dead_end
        beam_width = self.width(carry, settings)
        # Only candidates of the first half can finish. In the second half, only dead ends are
        # collected.
        count = beam_width if is_dead_end is None else 2 * beam_width
        found = {**histories, "log_probs": candidates.log_probs}
        found = {name: values[:, :count] for name, values in found.items() if name in pool}
        is_end = is_end[:, :count]  # (B, C)
        is_open = ops.logical_not(carry["done"])[:, None]
        ended = (is_end | at_limit[:, None]) & (found["log_probs"] > IMPOSSIBLE / 2) & is_open
        num_tokens = step + 1
        if is_dead_end is None:
            collected = ended
        else:
            ended = ended & (ops.arange(count, dtype="int32") < beam_width)
            collected = ended | (is_dead_end & is_open)
            num_tokens = num_tokens - ops.cast(is_dead_end, "int32")  # (B, C)
        if self.num_groups > 1:
            is_new = ops.logical_not(is_repeated(found["token_ids"], collected))
            ended, collected = ended & is_new, collected & is_new
        rows = (ops.shape(max_lengths)[0], count)
        found["num_tokens"] = ops.zeros(rows, dtype="int32") + num_tokens
        num_end_tokens = found.get("num_end_tokens", is_end)
        scores = found["log_probs"] / divisor(
            num_tokens, num_end_tokens, settings["length_penalty"], self.length_penalty_form
        )
        if self.coverage_penalty:
            weight = settings["coverage_penalty"]
            coverage = histories["coverage"][:, :count]
            scores = scores + _coverage_penalty(carry, coverage, is_dead_end, weight)
        if is_dead_end is not None:
            scores = ops.where(is_dead_end, ranks_of_dead_ends(scores), scores)
        found["ranks"] = ops.where(collected, scores, NO_RANK)
        pool_size = self.pool_size(beam_width, carry.get("count", settings["num_hypotheses"]))
        return add_to_pool(pool, found, step, rows[0], pool_size), ended

    def finish(
        self, hypotheses: TensorDict, num_hypotheses: int | Tensor | None = None
    ) -> TensorDict:
        count = self.num_hypotheses if num_hypotheses is None else num_hypotheses
        hypotheses = resize_pool(hypotheses, count)
        scores = ranks_to_scores(hypotheses.pop("ranks"))
        return super().finish({**hypotheses, "scores": scores})


def _constraints(carry, settings):
    """Returns the `Constraints` of a carry, or `None`."""
    if "constraints" not in carry:
        return None
    word_starts = settings.get(WORD_STARTS)
    if word_starts is not None:
        word_starts = ops.convert_to_tensor(word_starts, dtype="bool")
    return Constraints(**carry["constraints"], word_starts=word_starts)


def _num_collected(beam_width, patience):
    """Returns the number of finished hypotheses after which a search stops."""
    if is_integer(beam_width) and is_number(patience):
        # In float32, as for a tensor: other rounding could change the integer.
        return max(1, int(np.float32(beam_width) * np.float32(patience) + np.float32(0.5)))
    number = ops.cast(beam_width, "float32") * patience
    return ops.maximum(1, ops.cast(number + 0.5, "int32"))


def _coverage_penalty(carry, coverage, is_dead_end, weight):
    """Returns the penalties of the candidates that can finish, `(batch, count, source)`."""
    penalties = coverage_penalty(coverage, weight)  # (B, K or 2K)
    if is_dead_end is None:
        return penalties
    # A dead end has no new token, so exclude the attention weights of this step.
    own = coverage_penalty(carry["beams"]["coverage"], weight)  # (B, K)
    return ops.where(is_dead_end, ops.concatenate([own, own], axis=1), penalties)
