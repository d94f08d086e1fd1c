import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from keras_attn_runtime._array_types import Floats


class Unfinished(enum.Enum):
    """Type of `UNFINISHED`."""

    UNFINISHED = enum.auto()


UNFINISHED: Final = Unfinished.UNFINISHED
"""Replaces a `GenerationResult` that is unfinished when the call ends early."""


class TopToken(NamedTuple):
    """A probable token at a position of a hypothesis.

    Attributes:
        token_id: int, target id.
        piece: string, its piece; None without a tokenizer.
        log_prob: float, natural log probability given the previous tokens. -1e9 for a token that
            the search makes impossible.
    """

    token_id: int
    piece: str | None
    log_prob: float


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """One hypothesis from a search, a possible output for one sentence.

    Attributes:
        text: string, the detokenized output; None without a tokenizer.
        token_ids: list of ints, target ids without start, end and padding.
        pieces: list of strings, the pieces for `token_ids`; None without a tokenizer.
        score: float, the score by which the search ranks hypotheses: `log_prob` divided by the
            length penalty, plus the coverage penalty if the file was exported with one. Sampled
            hypotheses are not ranked: they are in sampling order, and the score is `log_prob`.
        log_prob: float, natural log probability of the output, including the end token or stop
            sequence, and the tokens that a stop text has cut.
        ended: bool, whether an end token, stop sequence or stop text follows the output. False if a
            limit cut the output or the search allowed no further token. None if padding and end
            token are the same token, so that this is unknown.
        alignments: float32 array `(target_length, source_length)`, the attention weights of each of
            `pieces` over `GenerationResult.source_pieces`, or None if the file returns no
            alignments.
        token_log_probs: list of floats, natural log probability of each of `token_ids`, and of the
            end token or stop sequence that follows. None if the file does not return them.
        constraints_met: list of bools, whether the output contains each phrase of `constraints`.
            None for a call without `constraints`.
        stop_text: string, the item in `stop_texts` before which the output is cut, or None. `text`
            is then everything before the stop text, and `token_ids` are the tokens that lie
            entirely before it.
        top_tokens: list with a list of `TopToken` for each of `token_ids`, and for the end token or
            stop sequence that follows: the most probable tokens at this position, best first. None
            if the file does not return them.
    """

    text: str | None
    token_ids: list[int]
    pieces: list[str] | None
    score: float
    log_prob: float
    ended: bool | None
    alignments: Floats | None = field(compare=False)
    token_log_probs: list[float] | None
    constraints_met: list[bool] | None = field(default=None, kw_only=True)
    stop_text: str | None = field(default=None, kw_only=True)
    top_tokens: list[list[TopToken]] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self._shown())
        return f"{type(self).__name__}({values})"

    def _shown(self) -> Iterator[tuple[str, object]]:
        """Yields names and values for `repr`, which leaves out long values."""
        content = ("token_ids", self.token_ids) if self.text is None else ("text", self.text)
        yield content[0], repr(content[1])
        yield "score", f"{self.score:.6g}"
        yield "log_prob", f"{self.log_prob:.6g}"
        yield "ended", self.ended


@dataclass(frozen=True, repr=False)
class GenerationResult(Hypothesis):
    """The translation of one sentence: its best hypothesis, all hypotheses and the source.

    A sentence without tokens, and any sentence with `max_length=0`, has the empty translation: one
    hypothesis without text and tokens, with score and log probability 0.

    Attributes:
        hypotheses: tuple of up to `num_hypotheses` `Hypothesis`, best first, or in sampling order.
            The search may find fewer. The first hypothesis has the same values as this object.
        source_pieces: list of strings, the pieces that the model read, including the end token;
            None without a tokenizer.
        truncated: bool, whether the sentence was longer than `max_source_length` tokens or
            `max_source_characters` and was cut.
    """

    hypotheses: tuple[Hypothesis, ...]
    source_pieces: list[str] | None
    truncated: bool

    def _shown(self) -> Iterator[tuple[str, object]]:
        yield from super()._shown()
        yield "num_hypotheses", len(self.hypotheses)
        if self.truncated:
            yield "truncated", True

    @classmethod
    def from_hypotheses(
        cls, hypotheses: Sequence[Hypothesis], source_pieces: list[str] | None, truncated: bool
    ) -> Self:
        """Returns a sentence's translation.

        Args:
            hypotheses: list with at least one `Hypothesis`, best first.
            source_pieces, truncated: see `GenerationResult`.
        """
        return cls(
            **vars(hypotheses[0]),
            hypotheses=tuple(hypotheses),
            source_pieces=source_pieces,
            truncated=truncated,
        )
