import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keras_attn._search.search import Search
from keras_attn._search.top_tokens import TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS
from keras_attn._types import TokenizerLike

IMPOSSIBLE = -1e9
"""Log probability that a search returns for missing hypotheses."""


class TopToken(NamedTuple):
    """A probable token at a position of a hypothesis, with the same fields as in the runtime.

    Attributes:
        token_id: Int, target id.
        piece: String, its subword piece, `""` for an id that the tokenizer lacks. `None` if there
            is no tokenizer with the method `pieces`.
        log_prob: Float, natural logarithm of its probability given the previous tokens; -1e9 for an
            impossible token.
    """

    token_id: int
    piece: str | None
    log_prob: float


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence, with the same fields as `keras_attn_runtime.Hypothesis`.

    Attributes:
        text: String, the detokenized output; `None` without a tokenizer.
        token_ids: List of ints, target ids without start token, end token and padding.
        pieces: List of strings, the subword pieces of `token_ids`; `None` if there is no tokenizer
            with the method `pieces`.
        score: Float, score that ranks the hypotheses: the log probability divided by the length
            penalty.
        log_prob: Float, natural logarithm of the probability, including the end token or stop
            sequence, and the tokens that a stop text has cut.
        ended: Bool, whether an end token, stop sequence or stop text was generated; `None` if the
            end token has the same id as padding.
        alignments: Float array of shape `(target, source)`, the attention weights; `None` unless
            the search has `return_alignments`.
        token_log_probs: List of floats, log probability of each token, including the end token or
            stop sequence; `None` unless the search has `return_token_log_probs`.
        constraints_met: List of bools, whether the result contains each phrase of `constraints`;
            `None` for a call without `constraints`, or for a source without phrases.
        stop_text: String, the item in `stop_texts` before which the hypothesis is cut, or `None`.
            `text` is then everything before the stop text, and `token_ids` are the tokens that lie
            entirely before it.
        top_tokens: List with a list of `TopToken` for each token, including the end token or stop
            sequence: the most probable tokens at this position, best first. `None` unless the
            search has `return_top_tokens`.
    """

    text: str | None
    token_ids: list[int]
    pieces: list[str] | None
    score: float
    log_prob: float
    ended: bool | None
    alignments: np.ndarray | None = field(compare=False, repr=False)
    token_log_probs: list[float] | None
    constraints_met: list[bool] | None = field(default=None, kw_only=True)
    stop_text: str | None = field(default=None, kw_only=True)
    top_tokens: list[list[TopToken]] | None = field(default=None, kw_only=True, repr=False)


@dataclass(frozen=True)
class GenerationResult(Hypothesis):
    """A source's best hypothesis, and all its hypotheses.

    The fields that this class inherits from `Hypothesis` describe the best hypothesis.
    `keras_attn_runtime.GenerationResult` has the same fields as this class.

    Attributes:
        hypotheses: Tuple of `Hypothesis`, best first.
        source_pieces: List of strings, the subword pieces of the source, including its start and
            end token; `None` if there is no tokenizer with the method `pieces`.
        truncated: Bool, whether the source was truncated to the maximum length of the encoder.
    """

    hypotheses: tuple[Hypothesis, ...]
    source_pieces: list[str] | None
    truncated: bool


def hypotheses_of_row(
    results: Mapping[str, np.ndarray],
    row: int,
    source_length: int | None,
    search: Search,
    tokenizer: TokenizerLike | None = None,
    num_phrases: int | None = None,
) -> list[Hypothesis]:
    """Returns the hypotheses of one source.

    Args:
        results: Dict of arrays that a search returned.
        row: Int, source index in the batch.
        source_length: Int, number of source tokens. Alignments are truncated to this length. `None`
            keeps all positions.
        search: `Search` with the special ids.
        tokenizer: Target tokenizer, or `None`.
        num_phrases: Int, number of phrases that the source requires. Defaults to `None`: no
            constraints.

    Returns:
        List with at least one `Hypothesis`.
    """
    log_probs = results["log_probs"][row]
    ranks = [rank for rank, value in enumerate(log_probs) if rank == 0 or value > IMPOSSIBLE / 2]
    lengths = results["lengths"][row].tolist()
    rows = [results["token_ids"][row, rank, : lengths[rank]].tolist() for rank in ranks]
    texts = [None] * len(rows) if tokenizer is None else tokenizer.decode(rows)
    hypotheses = []
    for rank, token_ids, text in zip(ranks, rows, texts, strict=True):
        length = lengths[rank]
        after = results["token_ids"][row, rank, length:].tolist()
        num_ends = num_end_tokens(after, search.end_token_ids, search.pad_token_id)
        alignments = token_log_probs = top_tokens = constraints_met = None
        if "alignments" in results:
            alignments = results["alignments"][row, rank, :length, :source_length].copy()
        if "token_log_probs" in results:
            values = results["token_log_probs"][row, rank, : length + (num_ends or 0)]
            token_log_probs = values.tolist()
        if TOP_TOKEN_IDS in results:
            positions = row, rank, slice(length + (num_ends or 0))
            ids, values = results[TOP_TOKEN_IDS], results[TOP_TOKEN_LOG_PROBS]
            top_tokens = _top_tokens(ids[positions], values[positions], tokenizer)
        if num_phrases:
            constraints_met = results["constraints_met"][row, rank, :num_phrases].tolist()
        hypotheses.append(
            Hypothesis(
                text=text,
                token_ids=token_ids,
                pieces=pieces(tokenizer, token_ids),
                score=float(results["scores"][row, rank]),
                log_prob=float(log_probs[rank]),
                ended=None if num_ends is None else num_ends > 0,
                alignments=alignments,
                token_log_probs=token_log_probs,
                constraints_met=constraints_met,
                top_tokens=top_tokens,
            )
        )
    return hypotheses


def empty_hypothesis(search: Search, has_text: bool) -> Hypothesis:
    """Returns the hypothesis for a source without tokens, for which no search runs."""
    return Hypothesis(
        text="" if has_text else None,
        token_ids=[],
        pieces=[] if has_text else None,
        score=0.0,
        log_prob=0.0,
        ended=True,
        alignments=np.zeros((0, 0), "float32") if search.return_alignments else None,
        token_log_probs=[] if search.return_token_log_probs else None,
        top_tokens=[] if search.return_top_tokens else None,
    )


def _top_tokens(
    ids: np.ndarray, log_probs: np.ndarray, tokenizer: TokenizerLike | None
) -> list[list[TopToken]]:
    """Returns the `TopToken`s at each position, for arrays of shape `(positions, k)`."""
    size = getattr(tokenizer, "vocabulary_size", None)  # the model may use more ids
    known = [each for each in np.unique(ids).tolist() if size is None or each < size]
    found = pieces(tokenizer, known)
    piece_of = None if found is None else dict(zip(known, found, strict=True))
    return [
        [
            TopToken(token_id, None if piece_of is None else piece_of.get(token_id, ""), log_prob)
            for token_id, log_prob in zip(*position, strict=True)
        ]
        for position in zip(ids.tolist(), log_probs.tolist(), strict=True)
    ]


def pieces(tokenizer: TokenizerLike | None, token_ids: Sequence[int]) -> list[str] | None:
    """Returns the subword pieces of ids, or `None` for a tokenizer without the method `pieces`."""
    find = getattr(tokenizer, "pieces", None)
    return None if find is None else find(token_ids)


def num_end_tokens(
    after: Sequence[int], end_token_ids: Sequence[int], pad_token_id: int
) -> int | None:
    """Returns how many ids after a hypothesis are its end token or stop sequence.

    Args:
        after: List of ints, also padding.
        end_token_ids: List of ints, the end tokens.
        pad_token_id: Int, padding id.

    Returns:
        Int, or `None` if the first id may be both padding and an end token.
    """
    if pad_token_id in end_token_ids and list(after[:1]) in ([], [pad_token_id]):
        return None
    if after and after[0] in end_token_ids:
        return 1
    return len(list(itertools.takewhile(lambda token_id: token_id != pad_token_id, after)))
