import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from keras_attn_runtime.array_types import Floats


class Unfinished(enum.Enum):
    """Type of `UNFINISHED`."""

    UNFINISHED = enum.auto()


UNFINISHED: Final = Unfinished.UNFINISHED
"""Stands for a `Translation` that a call did not finish in its time."""


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """An output of the search for a sentence.

    Attributes:
        text: string, the detokenized output; None if the file has no tokenizer.
        token_ids: list of ints, target ids without start, end and padding.
        pieces: list of strings, the SentencePiece pieces of `token_ids`; None as `text`.
        score: float, the score by which the search ranks: `log_prob` divided by the length penalty,
            and the coverage penalty, if the file was exported with one. Hypotheses that are drawn
            at random are not ranked: they are in the order of the draws, and the score is
            `log_prob`.
        log_prob: float, natural-log probability of the output, its end token included.
        ended: bool, whether the end token was reached. False if a limit has cut the output, or the
            rules of the search allowed no further token; None if the file pads with the end token.
        alignments: float32 array `(target_length, source_length)`, the attention weights of each of
            `pieces` over `Translation.source_pieces`, or None if the file has no alignments.
        token_log_probs: list of floats, natural-log probability of each of `token_ids`, and of the
            end token if the output has `ended`, or None if the file does not return them.
    """

    text: str | None
    token_ids: list[int]
    pieces: list[str] | None
    score: float
    log_prob: float
    ended: bool | None
    alignments: Floats | None = field(compare=False)
    token_log_probs: list[float] | None

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self._shown())
        return f"{type(self).__name__}({values})"

    def _shown(self) -> Iterator[tuple[str, object]]:
        """Yields names and values for a description in one line, without long values."""
        content = ("token_ids", self.token_ids) if self.text is None else ("text", self.text)
        yield content[0], repr(content[1])
        yield "score", f"{self.score:.6g}"
        yield "log_prob", f"{self.log_prob:.6g}"
        yield "ended", self.ended


@dataclass(frozen=True, repr=False)
class Translation(Hypothesis):
    """The translation of one sentence: its best hypothesis, all hypotheses and the source.

    A sentence without tokens, and any sentence with `max_length=0`, has the empty translation: one
    hypothesis without text and tokens, whose score and log probability are 0.

    Attributes:
        hypotheses: tuple of up to `num_hypotheses` `Hypothesis`, as many as the search found, best
            first, or in the order of random draws. The first has the values of this object.
        source_pieces: list of strings, the pieces that the model read, the end token included; None
            if the file has no tokenizer.
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
        """Returns the translation of a sentence.

        Args:
            hypotheses: list of at least one `Hypothesis`, best first.
            source_pieces, truncated: see `Translation`.
        """
        return cls(
            **vars(hypotheses[0]),
            hypotheses=tuple(hypotheses),
            source_pieces=source_pieces,
            truncated=truncated,
        )
