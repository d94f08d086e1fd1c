"""Replaces unknown tokens in generated texts by words of the source text.

Each unknown token is replaced by the source word with the largest attention weight at its step
([Jean et al., 2015](https://arxiv.org/abs/1412.2007), section 3.3; [Luong et al.,
2015](https://arxiv.org/abs/1410.8206)). `keras_attn_runtime` has the same functions.
"""

import bisect
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from keras_attn._models.word_starts import SCRIPTS_WITHOUT_SPACES, is_without_spaces
from keras_attn._types import TokenizerLike

if TYPE_CHECKING:
    from keras_attn._models.generation_result import Hypothesis

_WITHOUT_SPACES = "".join(f"{chr(first)}-{chr(last)}" for first, last in SCRIPTS_WITHOUT_SPACES)
_WORD = re.compile(rf"(?:(?!\s)[{_WITHOUT_SPACES}])+|[^\s{_WITHOUT_SPACES}]+")

MARK = "\U0010ffff"
"""Stands for an unknown token in a decoded text: a code point that is no character."""


class MarkingTokenizer(Protocol):
    """Tokenizer with the methods of `SentencePieceTokenizer` that find unknown pieces."""

    unknown_token_id: int

    def spans(self, text: str) -> list[tuple[int, int]]: ...

    def decode_with_mark(self, ids: Sequence[int], mark: str) -> str: ...


@dataclass(frozen=True)
class SourceWord:
    """A word in a source text.

    Attributes:
        start: Int, its first position in the text.
        text: String, the word as it is in the text.
    """

    start: int
    text: str

    @property
    def is_whole(self) -> bool:
        """Bool, whether spaces separate the word, so that it can consist of several pieces."""
        return not is_without_spaces(self.text[0])


def check_replaceable(source_tokenizer: object, target_tokenizer: object) -> None:
    """Raises a `ValueError` if tokenizers do not support the replacement of unknown tokens.

    Args:
        source_tokenizer: Tokenizer.
        target_tokenizer: Tokenizer.
    """
    if not callable(getattr(source_tokenizer, "spans", None)):
        raise ValueError(
            "Expected a source_tokenizer with the method spans, because of replace_unknown. "
            f"Received: {type(source_tokenizer).__name__}. Use a SentencePieceTokenizer or "
            "HuggingFaceTokenizer, or define spans as they do."
        )
    if not callable(getattr(target_tokenizer, "decode_with_mark", None)):
        raise ValueError(
            "Expected a target_tokenizer with the method decode_with_mark, because of "
            f"replace_unknown. Received: {type(target_tokenizer).__name__}. Use a "
            "SentencePieceTokenizer or HuggingFaceTokenizer, or define decode_with_mark as they do."
        )
    if not getattr(target_tokenizer, "has_unknown_token", True):
        raise ValueError(
            "Expected a target_tokenizer with an unknown token, because of replace_unknown. "
            f"Received: {type(target_tokenizer).__name__}, which encodes every text. Omit "
            "replace_unknown."
        )


def words_of_pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[SourceWord | None]:
    """Returns the word that each piece belongs to, or `None` in a text without words.

    A word is a run of characters without white space. In scripts that do not separate words, such
    as Chinese, it is the piece itself. A piece that begins with white space belongs to the next
    word.

    Args:
        text: String.
        spans: List of the first and the last position + 1 of each piece.
    """
    runs = [SourceWord(match.start(), match.group()) for match in _WORD.finditer(text)]
    ends: list[int] = [run.start + len(run.text) for run in runs]
    if not runs:
        return [None] * len(spans)
    words: list[SourceWord | None] = []
    for start, stop in spans:
        index = min(bisect.bisect_right(ends, start), len(runs) - 1)
        run, end = runs[index], ends[index]
        if not run.is_whole:
            first = min(max(start, run.start), end - 1)
            run = SourceWord(first, text[first : min(max(stop, first + 1), end)])
        words.append(run)
    return words


def with_source_words(
    hypothesis: "Hypothesis", words: Sequence[SourceWord | None], tokenizer: TokenizerLike
) -> "Hypothesis":
    """Returns a hypothesis whose text contains source words instead of unknown tokens.

    Args:
        hypothesis: `Hypothesis` with alignments. If a stop text has cut it, its text can contain
            a part of the next token.
        words, tokenizer: See `text_with_source_words`.
    """
    token_ids, weights = hypothesis.token_ids, hypothesis.alignments
    if weights is None:
        return hypothesis
    text = text_with_source_words(token_ids, weights, words, tokenizer)
    if text is None:
        return hypothesis
    (plain,) = tokenizer.decode([token_ids])
    return dataclasses.replace(hypothesis, text=text + (hypothesis.text or "")[len(plain) :])


def text_with_source_words(
    token_ids: Sequence[int],
    weights: np.ndarray,
    words: Sequence[SourceWord | None],
    tokenizer: TokenizerLike,
) -> str | None:
    """Returns the text of a translation, or `None` if nothing is replaced.

    Args:
        token_ids: List of target ids.
        weights: Float array of shape `(target, source)`, the attention weights.
        words: List of the word of each source position, `None` at special tokens. The list can end
            before the last position.
        tokenizer: Target tokenizer.
    """
    marking = cast(MarkingTokenizer, tokenizer)
    steps = [step for step, id_ in enumerate(token_ids) if id_ == marking.unknown_token_id]
    choices = [(position, word) for position, word in enumerate(words) if word is not None]
    if not steps or not choices:
        return None
    columns = [position for position, _ in choices]
    # The first of equal weights.
    best: list[int] = weights[steps][:, columns].argmax(axis=1).tolist()
    chosen = [choices[index][1] for index in best]
    return insert_words(marking.decode_with_mark(token_ids, MARK), chosen)


def insert_words(marked: str, words: Sequence[SourceWord]) -> str:
    """Replaces marks in a text by words.

    Marks of the same word copy it once if they are in one word of the text, or only white space is
    between them. Text directly before a word that repeats its beginning, and text directly after it
    that repeats its end, is left out: Z + Zürich + rich becomes Zürich.

    Args:
        marked: String that contains a `MARK` for each word.
        words: List of `SourceWord`.
    """
    first, *rest = marked.split(MARK)
    copies: list[tuple[str, SourceWord]] = []
    between = first
    for word, after in zip(words, rest, strict=True):
        if not (copies and copies[-1][1] == word and _is_within_word(between)):
            copies.append((between, word))
        between = after
    text, room, last = "", 0, ""  # room: number of characters of `last` that may be repeated
    for before, word in copies:
        before = before[_repeated(last, before, room) :]
        room = len(word.text) - 1 if word.is_whole else 0
        start = _repeated(before, word.text, room)
        text += before[: len(before) - start] + word.text
        room, last = room - start, word.text
    return text + between[_repeated(last, between, room) :]


def _is_within_word(between: str) -> bool:
    """Returns whether a text can be inside of one word, or is white space."""
    is_split = any(each.isspace() or is_without_spaces(each) for each in between)
    return not is_split or not between.strip()


def _repeated(before: str, after: str, most: int) -> int:
    """Returns the largest number of characters that end `before` and begin `after`."""
    for count in range(min(most, len(before), len(after)), 0, -1):
        if before[-count:].casefold() == after[:count].casefold():
            return count
    return 0
