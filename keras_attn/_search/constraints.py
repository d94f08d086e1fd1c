"""Lexical constraints: phrases that each hypothesis of a beam search must contain.

The algorithm follows [Post and Vilar, 2018](https://aclanthology.org/N18-1119) and its vectorized
form ([Hu et al., 2019](https://aclanthology.org/N19-1090)). A *bank* contains the candidates that
miss the same number of phrase tokens. The search selects the best candidate in each bank, then the
second best in each bank, and so on. The candidates include the next tokens that a beam's missing
phrases need, and the end token is impossible for such a beam.

A phrase is a list of alternatives, and it is *met* if a hypothesis contains one alternative,
followed by a token that begins a word. A phrase is *done* if it is met or if it ends with the
hypothesis's last token. Only such a phrase can still become undone, by a token that continues its
last word.

The alternatives are found with the algorithm Shift-And ([Baeza-Yates and Gonnet,
1992](https://doi.org/10.1145/135239.135243)): entry n of `matches` tells whether the last n tokens
equal the first n tokens of the alternative.
"""

import dataclasses

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._backend.run_if import run_if
from keras_attn._backend.scatter import scatter_add
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._layer.argument_checks import check_integers, known_values
from keras_attn._search.best_continuations import best_tokens
from keras_attn._search.candidates import Candidates
from keras_attn._search.end_tokens import Ends
from keras_attn._search.repetition import token_places
from keras_attn._search.rows_or_one import check_rows_or_one
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.impossible_parts import impossible_parts

NO_TOKEN = -1
"""Padding of phrases."""

_FAR = 1e6
"""Number of missing tokens in a padding alternative."""

_MANY = 1e3
"""Number of missing phrases in a dead end, more than P."""


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Each batch entry's phrases: P phrases with A alternatives, up to T tokens each.

    The state of all hypotheses is a dict of float32 tensors of zeros and ones: `met`
    `(batch, beams, P)`, whether each phrase is met, and `matches` `(batch, beams, P, A, T + 1)`.
    Floats need fewer nodes in an exported graph than booleans.

    Args:
        ids: Int32 tensor of shape `(batch, P, A, T + 1)`, padded with `NO_TOKEN`.
        in_order: Bool or scalar boolean tensor, whether the phrases must occur in their order.
        word_starts: Boolean tensor of shape `(V,)`, whether a token begins a word. `None` if all
            tokens do.
    """

    ids: Tensor
    in_order: bool | Tensor = False
    word_starts: Tensor | None = None

    def start(self, beams: Tensor) -> TensorDict:
        """Returns the state before the first token. Phrases without tokens are met.

        Args:
            beams: Tensor of shape `(batch, beams)`.
        """
        zeros = ops.expand_dims(ops.zeros_like(beams, dtype="float32"), 2)  # (B, K, 1)
        is_empty = ops.max(self._is_token[..., 0], axis=2) == 0  # (B, P)
        is_first = _numbers(ops.zeros_like(self.ids) + self._places == 0)
        return {
            "met": zeros + ops.expand_dims(_numbers(is_empty), 1),
            "matches": ops.expand_dims(zeros, (3, 4)) + ops.expand_dims(is_first, 1),
        }

    @property
    def _places(self):
        return ops.arange(ops.shape(self.ids)[3], dtype="int32")  # (T + 1,)

    @property
    def _is_token(self):
        return _numbers(self.ids != NO_TOKEN)

    @property
    def _lengths(self):
        return ops.sum(self._is_token, axis=3)  # (B, P, A)

    @property
    def _is_whole(self):
        """Float32 `(B, 1, P, A, T + 1)`, 1 at each alternative's length, unless it is 0."""
        places = ops.cast(self._places, "float32")
        lengths = ops.where(self._lengths > 0, self._lengths, -1.0)
        return ops.expand_dims(_numbers(places == ops.expand_dims(lengths, -1)), 1)

    def done(self, state: TensorDict) -> Tensor:
        """Returns whether each phrase is done, float32 `(batch, hypotheses, P)`."""
        return ops.maximum(state["met"], self._ends_here(state))

    def is_any_left(self, state: TensorDict) -> Tensor:
        """Returns whether any hypothesis has a phrase that is not met, boolean `()`."""
        return ops.min(state["met"]) < 0.5

    def following(self, state: TensorDict, candidates: Candidates, is_closed: Tensor) -> TensorDict:
        """Returns the candidates' state from their parents' state. See `read`."""
        state = {name: gather.gather_beams(t, candidates.parents) for name, t in state.items()}
        return run_if(
            self.is_any_left(state),
            lambda state: self.read(state, candidates.token_ids, is_closed),
            state,
        )

    def _ends_here(self, state):
        """Returns whether each phrase ends with the last token, float32 `(B, K, P)`."""
        return ops.max(state["matches"] * self._is_whole, axis=(3, 4))

    def read(self, state: TensorDict, token_ids: Tensor, is_closed: Tensor) -> TensorDict:
        """Returns the state after the next tokens.

        Args:
            state: State with C hypotheses per batch entry.
            token_ids: Int32 tensor of shape `(batch, C)`.
            is_closed: Boolean tensor of shape `(batch, C)`, whether the token ends the hypothesis.
        """
        ends_here = self._ends_here(state)  # (B, C, P)
        if self.word_starts is not None:
            begins = gather.gather_rows(self.word_starts, token_ids) | is_closed
            ends_here = ends_here * ops.expand_dims(_numbers(begins), 2)
        met = ops.maximum(state["met"], ends_here)
        tokens = ops.expand_dims(token_ids, (2, 3, 4))
        is_same = ops.expand_dims(self.ids, 1) == tokens  # (B, C, P, A, T + 1)
        is_open = (1.0 - met) * self._is_next(met)  # (B, C, P)
        hits = state["matches"] * _numbers(is_same) * ops.expand_dims(is_open, (3, 4))
        # Place 0 always matches. No token equals the padding at the last place.
        start = ops.ones_like(hits[..., :1])
        return {"met": met, "matches": ops.concatenate([start, hits[..., :-1]], axis=-1)}

    def _is_next(self, done):
        """Returns 1 if all phrases before each one are done, or any order is allowed."""
        if self.in_order is False:
            return 1.0
        left = 1.0 - done
        is_next = ops.cumsum(left, axis=2) == left
        return _numbers(is_next | ops.logical_not(self.in_order))

    def _progress(self, state):
        """Returns each alternative's number of matched tokens, float32 `(B, K, P, A)`."""
        return ops.max(state["matches"] * ops.cast(self._places, "float32"), axis=-1)

    def num_missing(self, state: TensorDict) -> Tensor:
        """Returns the number of missing tokens, float32 `(batch, hypotheses)`.

        Only the phrase with the largest progress counts as begun. Otherwise, a hypothesis that
        begins several phrases would lose as much as it gains by continuing one, and the search
        might never complete any.
        """
        lengths = self._lengths
        lengths = ops.expand_dims(ops.where(lengths > 0, lengths, _FAR), 1)  # (B, 1, P, A)
        left = ops.min(lengths - self._progress(state), axis=-1)  # (B, K, P)
        shortest = ops.min(lengths, axis=-1)  # (B, 1, P)
        is_left = 1.0 - self.done(state)
        gain = ops.max(is_left * (shortest - left), axis=-1)
        return ops.sum(is_left * shortest, axis=-1) - gain

    def next_tokens(self, state: TensorDict) -> tuple[Tensor, Tensor]:
        """Returns the tokens that continue the phrases that are not done.

        Returns:
            Tuple: int32 ids, and whether each continues a phrase, boolean, both with the shape
            `(batch, beams, P, A)`.
        """
        places = ops.cast(self._places, "float32")
        progress = ops.expand_dims(self._progress(state), -1)
        is_next_place = places == progress  # (B, K, P, A, T + 1)
        ids = ops.expand_dims(ops.cast(self.ids + 1, "float32"), 1)  # exact below 2**24
        tokens = ops.cast(ops.max(_numbers(is_next_place) * ids, axis=-1), "int32") - 1
        done = self.done(state)
        is_required = (1.0 - done) * self._is_next(done)  # (B, K, P)
        return ops.maximum(tokens, 0), ops.expand_dims(is_required > 0, -1) & (tokens >= 0)


def _numbers(mask: Tensor) -> Tensor:
    return ops.cast(mask, "float32")


def check_constraints(
    constraint_ids: Tensor,
    max_lengths: Tensor,
    vocabulary_size: int | None,
    end_token_ids: list[int],
    suppressed_token_ids: list[int],
    impossible_sequences: list[list[int]],
) -> None:
    """Raises a `ValueError` if phrases cannot occur. Symbolic tensors are not checked.

    Args:
        constraint_ids: Int tensor of shape `(batch, P, A, T)` or `(1, P, A, T)`.
        max_lengths: Int32 tensor of shape `(batch,)`, determines the batch size.
        vocabulary_size: Int, or `None` if it is unknown.
        end_token_ids: List of ints, tokens that end a hypothesis.
        suppressed_token_ids: List of ints, tokens that are impossible.
        impossible_sequences: List of id sequences that are impossible, or end a hypothesis.

    Raises:
        ValueError: If the shape is wrong, or ids are not integers, are not in the vocabulary,
            follow padding, or are not possible.
    """
    axes = ("phrases", "alternatives", "tokens")
    check_rows_or_one("constraint_ids", axes, constraint_ids, max_lengths)
    check_integers("constraint_ids", constraint_ids)
    if 0 in tuple(constraint_ids.shape)[1:]:
        raise ValueError(
            "Expected constraint_ids with at least one phrase, alternative and token. Received: "
            f"constraint_ids with shape {tuple(constraint_ids.shape)}. Fill one phrase with "
            f"{NO_TOKEN} for no phrases."
        )
    ids = known_values(constraint_ids)
    if ids is None or not ids.size:
        return
    below = np.inf if vocabulary_size is None else vocabulary_size
    if ids.min() < NO_TOKEN or ids.max() >= below:
        raise ValueError(
            f"Expected constraint_ids below {below}, padded with {NO_TOKEN}. Received: "
            f"constraint_ids between {ids.min()} and {ids.max()}. Use ids of the target vocabulary."
        )
    is_token = ids != NO_TOKEN
    if np.any(is_token[..., 1:] & ~is_token[..., :-1]):
        raise ValueError(
            f"Expected constraint_ids padded with {NO_TOKEN} on the right. Received: "
            "constraint_ids with a token after padding. Move the padding to the end."
        )
    for phrase in np.unique(ids.reshape(-1, ids.shape[-1]), axis=0).tolist():
        tokens = [token for token in phrase if token != NO_TOKEN]
        never = impossible_parts(
            tokens, [*end_token_ids, *suppressed_token_ids], impossible_sequences
        )
        if never:
            raise ValueError(
                "Expected constraint_ids without end tokens, suppressed_token_ids, "
                f"suppressed_sequences and stop_sequences. Received: a phrase {tokens} with "
                f"{never[0]}. Remove the phrase, or allow its tokens."
            )


def broadcast_constraints(constraint_ids: Tensor, max_lengths: Tensor) -> Tensor:
    """Broadcasts phrases to the batch and adds one column of padding, as `Constraints` needs them.

    Args:
        constraint_ids: Int tensor of shape `(batch, P, A, T)` or `(1, P, A, T)`.
        max_lengths: Int32 tensor of shape `(batch,)`, determines the batch size.
    """
    ids = ops.cast(constraint_ids, "int32")
    rows = ops.zeros_like(max_lengths)[:, None, None, None]  # (B, 1, 1, 1)
    return ops.concatenate([ids + rows, ops.zeros_like(ids[..., :1]) + NO_TOKEN + rows], axis=-1)


def forbid_end(log_probs: Tensor, done: Tensor, ends: Ends) -> Tensor:
    """Makes tokens impossible that would end hypotheses with phrases that are not done.

    Args:
        log_probs: Float32 tensor of shape `(batch * beams, V)`.
        done: Float32 tensor of shape `(batch, beams, P)`, see `Constraints.done`.
        ends: `Ends`.
    """
    is_missing = 1.0 - ops.reshape(ops.min(done, axis=2), (-1, 1))  # (B*K, 1)
    if ends.stops is not None:
        log_probs = ends.stops.forbid(log_probs, is_missing > 0)
    ids = np.array([ends.token_ids], "int32")  # (1, E)
    places = token_places(ops.zeros_like(is_missing, dtype="int32") + ids)
    penalties = ops.zeros(ids.shape, "float32") + IMPOSSIBLE * is_missing  # (B*K, E)
    return scatter_add(log_probs, places, ops.reshape(penalties, (-1,)))


def require_phrases(
    best: Candidates,
    constraints: Constraints,
    state: TensorDict,
    next_log_probs: Tensor,
    required_log_probs: Tensor,
    beam_log_probs: Tensor,
    penalties: Tensor,
    ends: Ends,
    beam_width: int | Tensor,
) -> Candidates:
    """Adds candidates that lead to the phrases, and selects among all of them by banks.

    Besides the 2K best continuations, the candidates are each beam's best continuation, the tokens
    that continue its phrases, and, where a phrase ends with its last token, its best token that
    begins a word. If all phrases are met, the function returns `best`.

    Args:
        best: `Candidates`, the K beams' 2K best continuations.
        constraints: `Constraints`.
        state: The K beams' state, see `Constraints`.
        next_log_probs: Float32 tensor of shape `(batch * beams, V)`, log probabilities for the
            next tokens.
        required_log_probs: The same for tokens that continue phrases, without the rules that forbid
            repetitions.
        beam_log_probs: Float32 tensor of shape `(batch, beams)`.
        penalties: Float32 tensor of shape `(V,)`, added to the tokens' log probabilities.
        ends: `Ends`.
        beam_width: Int or scalar int32 tensor, number of beams.

    Returns:
        `Candidates`, sorted by rank in their bank, then by bank, with the fewest missing tokens
        first. Impossible candidates come last.
    """

    def of_beams(values, tokens, count, is_allowed=None):
        """Returns `count` candidates per beam, from `(B*K, count)` tensors."""
        shape, together = (-1, beam_width, count), (-1, beam_width * count)
        values = ops.reshape(values, shape) + beam_log_probs[:, :, None]  # (B, K, n)
        if is_allowed is not None:
            values = ops.where(is_allowed, values, 2 * IMPOSSIBLE)
        tokens = ops.reshape(ops.cast(tokens, "int32"), shape)
        parents = ops.zeros_like(tokens) + ops.arange(beam_width, dtype="int32")[:, None]
        return [ops.reshape(each, together) for each in (values, parents, tokens)]

    def select(best):
        allowed = next_log_probs + penalties  # (B*K, V)
        tokens, is_required = constraints.next_tokens(state)  # (B, K, P, A)
        count = ops.shape(constraints.ids)[1] * ops.shape(constraints.ids)[2]
        tokens = ops.reshape(tokens, (-1, count))  # (B*K, P*A)
        values = gather.gather_beams(required_log_probs, tokens)
        values = values + gather.gather_rows(penalties, tokens)
        is_required = ops.reshape(is_required, (-1, beam_width, count))
        parts = [
            best,
            of_beams(*best_tokens(allowed), 1),
            of_beams(values, tokens, count, is_required),
        ]
        if constraints.word_starts is not None:
            of_word_starts = ops.where(constraints.word_starts, penalties, 2 * IMPOSSIBLE)
            values, tokens = best_tokens(next_log_probs + of_word_starts)
            ends_here = ops.max(constraints.done(state) - state["met"], axis=2, keepdims=True)
            parts.append(of_beams(values, tokens, 1, ends_here > 0))
        values, parents, tokens = (
            ops.concatenate(each, axis=1) for each in zip(*parts, strict=True)
        )  # (B, N)
        values, order = top_k(values, ops.shape(values)[1])
        order = ops.cast(order, "int32")
        parents, tokens = (gather.gather_beams(each, order) for each in (parents, tokens))
        pairs = parents * next_log_probs.shape[-1] + tokens
        states = {name: gather.gather_beams(value, parents) for name, value in state.items()}
        is_end, _ = ends.find(tokens, parents)
        states = constraints.read(states, tokens, is_end)
        keys, is_possible = _bank_keys(values, pairs, constraints.num_missing(states))
        _, chosen = top_k(-keys, 2 * beam_width)
        chosen = ops.cast(chosen, "int32")
        values = ops.where(is_possible, values, 2 * IMPOSSIBLE)
        return tuple(gather.gather_beams(each, chosen) for each in (values, parents, tokens))

    # Speed: a token of an RNN takes 1.1 times as long without phrases as in a search without
    # constraints, and 1.65 times with phrases (benchmarks/constraints.py).
    is_any_left = constraints.is_any_left(state)
    return Candidates(*run_if(is_any_left, select, (best.log_probs, best.parents, best.token_ids)))


def _bank_keys(log_probs, pairs, missing):
    """Returns keys that sort candidates by rank in their bank, then by bank.

    Args:
        log_probs: Float32 tensor of shape `(batch, N)`, largest first.
        pairs: Int32 tensor of shape `(batch, N)`, a number for each beam and token.
        missing: Float32 tensor of shape `(batch, N)`, number of missing tokens.

    Returns:
        Tuple: the float32 keys, smallest first, and whether each candidate is possible and unique,
        boolean, both with the shape `(batch, N)`.
    """
    places = ops.arange(ops.shape(pairs)[1], dtype="int32")
    is_before = _numbers(places < ops.expand_dims(places, 1))  # (N, N): [i, j] if j comes before i
    is_copy = _count_equal(pairs, is_before) > 0
    is_possible = ops.logical_not(is_copy) & (log_probs > IMPOSSIBLE / 2)
    # Each impossible candidate has its own bank, so that it has no effect on the ranks.
    own_bank = -1.0 - ops.cast(places, "float32")
    rank = _count_equal(ops.where(is_possible, missing, own_bank), is_before)  # (B, N)
    num_banks = 1.0 + ops.max(missing, axis=1, keepdims=True)
    return ops.where(is_possible, rank * num_banks + missing, -IMPOSSIBLE), is_possible


def _count_equal(values, is_before):
    """Returns how many previous values equal each value, float32 `(B, N)`."""
    is_equal = _numbers(ops.expand_dims(values, 1) == ops.expand_dims(values, 2))  # (B, N, N)
    return ops.sum(is_equal * is_before, axis=2)


def constrained_order(ranks: Tensor, constraints_met: Tensor, worst_rank: float) -> Tensor:
    """Sorts hypotheses by their missing phrases, then by rank.

    Args:
        ranks: Float32 tensor of shape `(batch, n)`.
        constraints_met: Boolean tensor of shape `(batch, n, P)`.
        worst_rank: Float. Hypotheses with a lower rank, such as dead ends, come last.

    Returns:
        Int32 hypothesis indices `(batch, n)`, best first.
    """
    missing = ops.sum(1.0 - _numbers(constraints_met), axis=2)  # (B, n)
    missing = ops.where(ranks > worst_rank, missing, _MANY)
    count = ops.shape(ranks)[1]
    _, order = top_k(ranks, count)  # (B, n)
    order = ops.cast(order, "int32")
    places = ops.cast(ops.arange(count, dtype="int32"), "float32")
    keys = gather.gather_beams(missing, order) * ops.cast(count, "float32") + places
    _, best = top_k(-keys, count)
    return gather.gather_beams(order, ops.cast(best, "int32"))
