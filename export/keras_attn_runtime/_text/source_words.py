"""The words of a source text, which replace unknown tokens of its translation."""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass

from keras_attn_runtime._text.scripts import RANGES, is_without_spaces

_WITHOUT_SPACES = "".join(f"{chr(first)}-{chr(last)}" for first, last in RANGES)
_WORD = re.compile(rf"(?:(?!\s)[{_WITHOUT_SPACES}])+|[^\s{_WITHOUT_SPACES}]+")


@dataclass(frozen=True)
class SourceWord:
    """A word in a source text.

    Attributes:
        start: int, its first position in the text.
        text: string, the word as it is in the text.
    """

    start: int
    text: str

    @property
    def is_whole(self) -> bool:
        """bool, whether spaces separate the word, so that it can consist of several pieces."""
        return not is_without_spaces(self.text[0])


def words_of_pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[SourceWord | None]:
    """Returns the word that each piece belongs to, or `None` in a text without words.

    A word is a run of characters without white space. In scripts that do not separate words, such
    as Chinese, it is the piece itself. A piece that begins with white space belongs to the next
    word.

    Args:
        text: string.
        spans: list of the first and the last position + 1 of each piece.
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
