from dataclasses import dataclass, field
from typing import Any

import numpy as np

IMPOSSIBLE = -1e9
"""Log probability of a hypothesis that a search did not find."""


@dataclass(frozen=True)
class Hypothesis:
    """One output of the search, with the fields of a `Hypothesis` of `keras_attn_runtime`.

    Attributes:
        text: str, the detokenized output; `None` without a tokenizer.
        token_ids: list of int, target ids without start, end and padding.
        pieces: list of str, the pieces of `token_ids`; `None` without a tokenizer that has pieces.
        score: float, natural-log probability divided by the length penalty, as ranked.
        log_prob: float, natural-log probability of all tokens and the end token.
        ended: bool, whether there was an end token; `None` if the end token also pads.
        alignments: float array `(target, source)`, the attention weights; `None` for a search
            without `return_alignments`.
        token_log_probs: list of float, natural-log probability of each token and the end token;
            `None` for a search without `return_token_log_probs`.
    """

    text: str | None
    token_ids: list[int]
    pieces: list[str] | None
    score: float
    log_prob: float
    ended: bool | None
    alignments: np.ndarray | None = field(compare=False, repr=False)
    token_log_probs: list[float] | None


@dataclass(frozen=True)
class Generation(Hypothesis):
    """The best hypothesis for one source, and all others, as a `Translation` of the runtime.

    Attributes:
        hypotheses: tuple of `Hypothesis`, best first; the first has this object's own values.
        source_pieces: list of str, the pieces that the model read, with start and end token; `None`
            without a tokenizer that has pieces.
        truncated: bool, whether the source was cut to the most tokens that the encoder can read.
    """

    hypotheses: tuple[Hypothesis, ...]
    source_pieces: list[str] | None
    truncated: bool


def hypotheses_of_row(
    results: Any, row: int, source_length: int | None, search: Any, tokenizer: Any = None
) -> Any:
    """The hypotheses that a search found for one source.

    Args:
        results: dict of arrays, as a search returns them.
        row: int, the place of the source in the batch.
        source_length: int | None, tokens of the source, or `None` for all positions.
        search: the `Search`, for its special ids.
        tokenizer: tokenizer of the target, or `None`.

    Returns:
        List of at least one `Hypothesis`.
    """
    log_probs = results["log_probs"][row]
    ranks = [rank for rank, value in enumerate(log_probs) if rank == 0 or value > IMPOSSIBLE / 2]
    lengths = results["lengths"][row].tolist()
    rows = [results["token_ids"][row, rank, : lengths[rank]].tolist() for rank in ranks]
    texts = [None] * len(rows) if tokenizer is None else tokenizer.decode(rows)
    hypotheses = []
    for rank, token_ids, text in zip(ranks, rows, texts, strict=True):
        length, ended = lengths[rank], None
        if search.end_token_id != search.pad_token_id:
            after = results["token_ids"][row, rank, length : length + 1].tolist()
            ended = after == [search.end_token_id]
        alignments = token_log_probs = None
        if "alignments" in results:
            alignments = results["alignments"][row, rank, :length, :source_length].copy()
        if "token_log_probs" in results:
            values = results["token_log_probs"][row, rank, : length + bool(ended)]
            token_log_probs = values.tolist()
        hypotheses.append(
            Hypothesis(
                text=text,
                token_ids=token_ids,
                pieces=pieces(tokenizer, token_ids),
                score=float(results["scores"][row, rank]),
                log_prob=float(log_probs[rank]),
                ended=ended,
                alignments=alignments,
                token_log_probs=token_log_probs,
            )
        )
    return hypotheses


def empty_hypothesis(search: Any, has_text: bool) -> Any:
    """The hypothesis for a source without tokens, for which nothing is searched."""
    return Hypothesis(
        text="" if has_text else None,
        token_ids=[],
        pieces=[] if has_text else None,
        score=0.0,
        log_prob=0.0,
        ended=True,
        alignments=np.zeros((0, 0), "float32") if search.return_alignments else None,
        token_log_probs=[] if search.return_token_log_probs else None,
    )


def pieces(tokenizer: Any, token_ids: Any) -> Any:
    """The pieces of ids as strings, or `None` for a tokenizer that has no method `pieces`."""
    return tokenizer.pieces(token_ids) if hasattr(tokenizer, "pieces") else None
