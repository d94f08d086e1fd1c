import numbers

import keras
import numpy as np
from keras import ops, tree

from keras_attn._backend import gather
from keras_attn._backend.integers import sum_int32
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import check_positive_integer, is_finite
from keras_attn.search.beam_groups import candidates_of_groups, first_open, is_repeated
from keras_attn.search.best_continuations import best_continuations
from keras_attn.search.coverage_penalty import coverage_penalty
from keras_attn.search.dead_ends import (
    NO_RANK,
    find_dead_ends,
    ranks_of_dead_ends,
    ranks_to_scores,
)
from keras_attn.search.length_penalty import best_attainable, divisor
from keras_attn.search.logits import IMPOSSIBLE
from keras_attn.search.search import Search

MAX_BEAM_WIDTH = 4096
STOPS = ("collected", "exact")


@keras.saving.register_keras_serializable(package="keras_attn")
class BeamDecoder(Search):
    """Beam search with a pool of ended hypotheses.

    At each step the `2 * beam_width` best continuations of the open beams are looked at, so that
    `beam_width` of them are open whatever ends. A continuation ends if it is among the `beam_width`
    best and is the end token, or if its sentence has reached its limit; it then moves to the pool,
    where hypotheses are ranked by score. Ties go to the earlier beam, then to the lower token id.
    If the rules leave a beam no token, and its group has no more possible continuations than beams,
    the beam moves to the pool as it is and ranks below all hypotheses that have ended.
    The conventions are those of CTranslate2 and fairseq; to rank as they do, the end token counted,
    ask for `length_penalty_form="average_with_end"`.

    With `num_groups` it is diverse beam search ([Vijayakumar et al., 2018](
    https://arxiv.org/abs/1610.02424), with Hamming diversity): the beams are divided into groups,
    each of which searches for itself but is held off what the groups before it choose at the same
    step. Group g chooses its continuations y by

        log p(y) - diversity_strength * sum over h < g of how often h has chosen the token of y

    where h has chosen the tokens of as many best continuations as it has beams. Scores and log
    probabilities of the results are without that.

    Args:
        decoder: a `StepDecoder`.
        beam_width: int of at most 4096, open hypotheses of a sentence. Default 4.
        num_hypotheses: int, hypotheses returned, at most `beam_width`. Default 1.
        stop: when a sentence is done. `"collected"`: `beam_width * patience` hypotheses, rounded to
            the nearest whole number and at least one, have ended.
            `"exact"`: no open hypothesis can still be among the best `num_hypotheses`. Default
            `"collected"`.
        patience: float > 0, see `stop`
            ([Kasai et al., 2024](https://aclanthology.org/2024.lrec-main.261)). Default 1.
        coverage_penalty: float >= 0, added to the score of a hypothesis is this many times how far
            it has left parts of the source out, see `keras_attn.search.coverage_penalty`; needs a
            decoder whose attention weights are never exactly 0 but for padding, as a softmax gives
            them. Default 0.
        num_groups: int, groups of beams; divides `beam_width`. What two groups find counts once.
            Default 1.
        diversity_strength: float > 0, see above, in nats. Default 0.5.
        **kwargs: arguments of `Search`.

    Call arguments, returns: see `Search`; `hypotheses` is `num_hypotheses`.

    Raises:
        ValueError: for arguments out of range.
    """

    def __init__(
        self,
        decoder,
        beam_width=4,
        num_hypotheses=1,
        stop="collected",
        patience=1.0,
        coverage_penalty=0.0,
        num_groups=1,
        diversity_strength=0.5,
        **kwargs,
    ):
        super().__init__(decoder, **kwargs)
        check_positive_integer("beam_width", beam_width)
        if beam_width > MAX_BEAM_WIDTH:
            raise ValueError(
                f"beam_width must be at most {MAX_BEAM_WIDTH}: the memory of a search grows with "
                f"its square. Received: beam_width={beam_width}. Use a smaller one, or a "
                "SamplingDecoder for many hypotheses."
            )
        check_positive_integer("num_groups", num_groups)
        if (
            not isinstance(num_hypotheses, numbers.Integral)
            or not 1 <= num_hypotheses <= beam_width
        ):
            raise ValueError(
                "num_hypotheses must be a whole number between 1 and beam_width. "
                f"Received: num_hypotheses={num_hypotheses}, beam_width={beam_width}."
            )
        if stop not in STOPS:
            raise ValueError(f"stop must be one of {STOPS}. Received: stop={stop!r}.")
        if not is_finite(patience) or patience <= 0:
            raise ValueError(
                f"patience must be positive and finite. Received: patience={patience}."
            )
        if not is_finite(coverage_penalty) or coverage_penalty < 0:
            raise ValueError(
                "coverage_penalty must be a finite number and not negative. "
                f"Received: coverage_penalty={coverage_penalty!r}."
            )
        if beam_width % num_groups:
            raise ValueError(
                "num_groups must divide beam_width. "
                f"Received: num_groups={num_groups}, beam_width={beam_width}."
            )
        if not is_finite(diversity_strength) or diversity_strength <= 0:
            raise ValueError(
                "diversity_strength must be a positive and finite number. "
                f"Received: diversity_strength={diversity_strength!r}."
            )
        self.beam_width = int(beam_width)
        self.num_hypotheses = int(num_hypotheses)
        self.stop = stop
        self.patience = patience
        self.coverage_penalty = float(coverage_penalty)
        self.num_groups = int(num_groups)
        self.diversity_strength = float(diversity_strength)

    @property
    def width(self):
        return self.beam_width

    def start(self, memory, limits, encoder_mask):
        batch, source = ops.shape(encoder_mask)[0], ops.shape(encoder_mask)[1]
        beams, pool = (batch, self.beam_width), (batch, self.num_hypotheses)

        def new_buffer(rows, rest=(), dtype="int32"):
            return growing_buffer.new_buffer(rows, rest, dtype, self.max_length)

        # All beams start alike: only the first of a group is possible, or there would be copies of
        # everything.
        first_beam = (
            ops.arange(self.beam_width, dtype="int32") % (self.beam_width // self.num_groups) == 0
        )
        first_tokens = self.decoder.first_token_ids(memory, self.start_token_id)
        first_hypothesis = ops.arange(self.num_hypotheses, dtype="int32")[None, :] == 0  # (1, N)
        # With no token allowed, the empty hypothesis is the result.
        is_empty = (limits[:, None] == 0) & first_hypothesis  # (B, N)
        empty_log_probs = _possible(is_empty)
        carry = {
            "step": ops.zeros((), dtype="int32"),
            "done": limits == 0,
            "collected": ops.zeros_like(limits),
            "state": self.decoder.initial_state(
                memory, self.beam_width, self._aligns, max(1, self.max_length)
            ),
            "beams": {
                "token_ids": new_buffer(beams),
                "last": ops.broadcast_to(first_tokens[:, None], beams),
                "log_probs": ops.zeros(beams, "float32") + _possible(first_beam),
            },
            "hypotheses": {
                "token_ids": new_buffer(pool),
                "num_tokens": ops.zeros(pool, dtype="int32"),
                "ranks": ops.cast(ops.where(is_empty, 0.0, NO_RANK), "float32"),
                "log_probs": empty_log_probs,
            },
        }
        if self._aligns:
            dtype = self.alignments_dtype(carry["state"])
        if self.coverage_penalty:
            carry["beams"]["coverage"] = ops.zeros((*beams, source), dtype="float32")
        if self.return_alignments:
            carry["beams"]["alignments"] = new_buffer(beams, (source,), dtype)
            carry["hypotheses"]["alignments"] = new_buffer(pool, (source,), dtype)
        if self.return_token_log_probs:
            carry["beams"]["token_log_probs"] = new_buffer(beams, dtype="float32")
            carry["hypotheses"]["token_log_probs"] = new_buffer(pool, dtype="float32")
        return carry

    @property
    def _aligns(self):
        """Whether the attention weights of each step are needed."""
        return bool(self.return_alignments or self.coverage_penalty)

    def advance(self, carry, memory, limits, length_penalty):
        step, beams = carry["step"], carry["beams"]
        last = ops.reshape(beams["last"], (-1,))  # (B*K,)
        step_logits, state = self.decoder.step(last, carry["state"], memory)
        candidates = self._candidates(step_logits, carry)
        self._extend_histories(candidates, beams, state, step)

        at_limit = step + 1 >= limits  # (B,)
        is_end = candidates["last"] == self.end_token_id  # (B, 2K)
        is_dead_end = candidates.pop("is_dead_end", None)  # (B, 2K)
        if is_dead_end is not None:  # padding may be the end token
            is_end = is_end & ops.logical_not(is_dead_end)
        pool, ended = self._collect(
            carry, candidates, is_end, is_dead_end, at_limit, limits, length_penalty
        )
        collected = carry["collected"] + sum_int32(ended, axis=1)

        is_closed = is_end if is_dead_end is None else is_end | is_dead_end
        candidates["log_probs"] = ops.where(is_closed, 2 * IMPOSSIBLE, candidates["log_probs"])
        chosen = first_open(candidates["log_probs"], is_closed, self.num_groups)  # (B, K)
        beams = tree.map_structure(lambda t: gather.gather_beams(t, chosen), candidates)
        # The size of the limits, unlike that of the beams, is a constant of the loop.
        rows = gather.flat_rows(beams.pop("parents"), ops.shape(limits)[0], self.beam_width)
        state = gather.reorder(state, rows)

        best_open = ops.max(beams["log_probs"], axis=1)  # (B,)
        done = carry["done"] | at_limit | (best_open < IMPOSSIBLE / 2)
        if self.stop == "collected":
            done = done | (collected >= max(1, int(self.beam_width * self.patience + 0.5)))
        else:
            attainable = best_attainable(
                best_open, step + 1, limits, length_penalty, self.length_penalty_form
            )
            done = done | (pool["ranks"][:, -1] >= attainable)
        return {
            **carry,
            "step": step + 1,
            "done": done,
            "collected": collected,
            "state": state,
            "beams": beams,
            "hypotheses": pool,
        }

    def partial(self, carry):
        best = self.finish(carry["hypotheses"])["token_ids"][:, 0]  # (B, t)
        open_ids = carry["beams"]["token_ids"]  # (B, K, t)
        if self.num_groups > 1:  # in the order of the groups
            _, first = ops.top_k(carry["beams"]["log_probs"], 1)  # (B, 1)
            open_ids = gather.gather_beams(open_ids, first)  # (B, 1, t)
        return ops.where(carry["done"][:, None], best, open_ids[:, 0])

    def _candidates(self, step_logits, carry):
        """The best continuations, `2 * beam_width` of each sentence, see `beam_groups`."""
        step, beams = carry["step"], carry["beams"]
        batch, vocabulary_size = ops.shape(beams["last"])[0], step_logits.shape[-1]
        next_log_probs = self.next_log_probs(step_logits, beams["token_ids"], step)  # (B*K, V)
        penalties = self.penalties(vocabulary_size, step)  # (V,)
        forced = self.forced_tokens(carry, step_logits)
        size = self.beam_width // self.num_groups

        def continue_group(first, token_log_probs, taken):
            log_probs = beams["log_probs"][:, first : first + size]  # (B, M)
            values, parents, tokens = best_continuations(
                token_log_probs, log_probs, penalties, self.penalized_token_ids, 2 * size
            )  # (B, 2M)
            if taken is not None:
                values = values + gather.gather_beams(taken, tokens)
            if forced is not None:
                forced_tokens, forced_log_probs, is_forced = forced
                # Until the prefix is over, there is the first beam alone.
                only = (log_probs + forced_log_probs[:, first : first + size])[:, :1]  # (B, 1)
                only = ops.where(
                    ops.arange(2 * size, dtype="int32") == 0, only, 2 * IMPOSSIBLE
                )  # (B, 2M)
                values = ops.where(is_forced, only, values)
                parents = ops.where(is_forced, 0, parents)
                tokens = ops.where(is_forced, forced_tokens, tokens)
            return values, parents, tokens

        log_probs, parents, tokens = candidates_of_groups(
            continue_group,
            next_log_probs,
            beams["log_probs"],
            self.num_groups,
            self.diversity_strength,
        )
        candidates = {"log_probs": log_probs, "last": tokens, "parents": parents}
        if self.may_reach_dead_end(vocabulary_size):
            is_dead_end, own = find_dead_ends(
                log_probs, parents, beams["log_probs"], self.num_groups
            )
            own_log_probs = gather.gather_rows(beams["log_probs"], own, axis=1)  # (B, 2K)
            tokens = ops.where(is_dead_end, self.pad_token_id, tokens)
            parents = ops.where(is_dead_end, own, parents)
            candidates = {
                "log_probs": ops.where(is_dead_end, own_log_probs, log_probs),
                "last": tokens,
                "parents": parents,
                "is_dead_end": is_dead_end,
            }
        if self.return_token_log_probs:
            # Not the difference of two sums, which is the less exact the longer the hypothesis.
            flat = ops.reshape(next_log_probs, (batch, self.beam_width * vocabulary_size))
            own = gather.gather_beams(flat, parents * vocabulary_size + tokens)  # (B, 2K)
            own = own + gather.gather_rows(penalties, tokens)
            if forced is not None:
                _, forced_log_probs, is_forced = forced
                own = ops.where(is_forced, gather.gather_beams(forced_log_probs, parents), own)
            candidates["token_log_prob"] = own
        return candidates

    def _extend_histories(self, candidates, beams, state, step):
        """Adds to the candidates what they have behind them."""
        parents = candidates["parents"]
        if self._aligns:
            batch, source = ops.shape(parents)[0], ops.shape(state["alignments"])[1]
            weights = ops.reshape(state["alignments"], (batch, self.beam_width, source))
        if self.coverage_penalty:
            coverage = beams["coverage"] + ops.cast(weights, "float32")  # (B, K, S)
            candidates["coverage"] = gather.gather_beams(coverage, parents)
        if self.return_alignments:
            alignments = growing_buffer.append(beams["alignments"], weights, step)  # (B, K, t+1, S)
            candidates["alignments"] = gather.gather_beams(alignments, parents)
        if self.return_token_log_probs:
            log_probs = gather.gather_beams(beams["token_log_probs"], parents)  # (B, 2K, t)
            own = candidates.pop("token_log_prob")  # (B, 2K)
            candidates["token_log_probs"] = growing_buffer.append(log_probs, own, step)
        token_ids = gather.gather_beams(beams["token_ids"], parents)  # (B, 2K, t)
        candidates["token_ids"] = growing_buffer.append(token_ids, candidates["last"], step)

    def _collect(self, carry, candidates, is_end, is_dead_end, at_limit, limits, length_penalty):
        """Moves what ends at this step to the pool.

        Args:
            carry: of the search.
            candidates: dict, leaves `(batch, 2 * beams, ...)`.
            is_end: boolean `(batch, 2 * beams)`.
            is_dead_end: boolean `(batch, 2 * beams)`, or `None` if there are no dead ends.
            at_limit: boolean `(batch,)`.
            limits: int32 `(batch,)`.
            length_penalty: float32 scalar.

        Returns:
            Tuple of the pool, and which candidates have ended, boolean `(batch, candidates)`, dead
            ends not among them.
        """
        step, pool = carry["step"], dict(carry["hypotheses"])
        # The first half may end; the second half can only have dead ends.
        count = self.beam_width if is_dead_end is None else 2 * self.beam_width
        found = {name: candidates[name][:, :count] for name in pool if name in candidates}
        is_end = is_end[:, :count]  # (B, C)
        is_open = ops.logical_not(carry["done"])[:, None]
        ended = (is_end | at_limit[:, None]) & (found["log_probs"] > IMPOSSIBLE / 2) & is_open
        num_tokens = step + 1
        if is_dead_end is None:
            collected = ended
        else:
            ended = ended & (np.arange(count) < self.beam_width)
            collected = ended | (is_dead_end & is_open)
            num_tokens = num_tokens - ops.cast(is_dead_end, "int32")  # (B, C)
        if self.num_groups > 1:
            is_new = ops.logical_not(is_repeated(found["token_ids"], collected))
            ended, collected = ended & is_new, collected & is_new
        beams = (ops.shape(limits)[0], count)
        found["num_tokens"] = ops.zeros(beams, dtype="int32") + num_tokens
        scores = found["log_probs"] / divisor(
            num_tokens, is_end, length_penalty, self.length_penalty_form
        )
        if self.coverage_penalty:
            scores = scores + self._coverage_penalty(carry, candidates, is_dead_end)
        if is_dead_end is not None:
            scores = ops.where(is_dead_end, ranks_of_dead_ends(scores), scores)
        found["ranks"] = ops.where(collected, scores, NO_RANK)

        for name in ("token_ids", "token_log_probs", "alignments"):
            if name in pool:
                shape = (ops.shape(limits)[0], self.num_hypotheses, *ops.shape(pool[name])[3:])
                nothing = ops.zeros(shape, dtype=pool[name].dtype)
                pool[name] = growing_buffer.append(pool[name], nothing, step)
        both = {name: ops.concatenate([pool[name], found[name]], axis=1) for name in pool}
        _, chosen = ops.top_k(both["ranks"], self.num_hypotheses)
        pool = tree.map_structure(lambda t: gather.gather_beams(t, chosen), both)
        return pool, ended

    def _coverage_penalty(self, carry, candidates, is_dead_end):
        if is_dead_end is None:
            coverage = candidates["coverage"][:, : self.beam_width]  # (B, K, S)
            return coverage_penalty(coverage, self.coverage_penalty)
        penalties = coverage_penalty(candidates["coverage"], self.coverage_penalty)  # (B, 2K)
        # Without the attention of the step that found no token.
        own = coverage_penalty(carry["beams"]["coverage"], self.coverage_penalty)  # (B, K)
        return ops.where(is_dead_end, ops.concatenate([own, own], axis=1), penalties)

    def finish(self, hypotheses):
        hypotheses = dict(hypotheses)
        scores = ranks_to_scores(hypotheses.pop("ranks"))
        return super().finish({**hypotheses, "scores": scores})

    def get_config(self):
        return {
            **super().get_config(),
            "beam_width": self.beam_width,
            "num_hypotheses": self.num_hypotheses,
            "stop": self.stop,
            "patience": self.patience,
            "coverage_penalty": self.coverage_penalty,
            "num_groups": self.num_groups,
            "diversity_strength": self.diversity_strength,
        }


def _possible(condition):
    """Log-probabilities float32: 0 where the condition holds, none elsewhere."""
    return ops.cast(ops.where(condition, 0.0, IMPOSSIBLE), "float32")
