"""Added tokens: strings that are one id wherever a text contains them."""

import re
import unicodedata
from collections.abc import Callable, Iterable

from keras_attn_runtime._file_format.vocabulary_side import AddedToken

_SPACES = re.compile(r"[^\S\x1c-\x1f]*")
_LAST_SPACES = re.compile(r"[^\S\x1c-\x1f]*$")

_CLEANED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class AddedTokenSplitter:
    """Finds the added tokens in texts. At each position, the longest token wins.

    Args:
        tokens: iterable of `AddedToken`s.
        space_token_id: int, id to insert between white space and a token, or `None` for no id.
        ends_with_space: function `(text)` that returns whether the normalized text ends with a
            space.
    """

    def __init__(
        self,
        tokens: Iterable[AddedToken],
        space_token_id: int | None = None,
        ends_with_space: Callable[[str], bool] = lambda text: text[-1:].isspace(),
    ) -> None:
        self.ends_with_space = ends_with_space
        self.tokens = {token.content: token for token in tokens}
        self.space_token_id = space_token_id
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def split(self, text: str) -> list[str | int]:
        """Splits a text into strings, and the ids of added tokens between them."""
        return [part for part, _ in self.split_with_starts(text)]

    def split_with_starts(self, text: str) -> list[tuple[str | int, int]]:
        """Splits a text like `split`, and returns each part with its first position in the text."""
        if not self.tokens:
            return [(text, 0)]
        parts: list[tuple[str | int, int]] = []
        end = 0  # end of the last token
        for match in self._pattern.finditer(text):
            token = self.tokens[match.group()]
            start, stop = match.span()
            if token.single_word and any(map(_is_word, text[:start][-1:] + text[stop : stop + 1])):
                continue
            before = text[end:start]
            if token.lstrip:
                before = _LAST_SPACES.sub("", before)
            if token.rstrip:
                spaces = _SPACES.match(text, stop)
                stop = stop if spaces is None else spaces.end()
            if before:
                parts.append((before, end))
            if self.space_token_id is not None and self.ends_with_space(before):
                parts.append((self.space_token_id, start))
            parts.append((token.id, start))
            end = stop
        return [*parts, (text[end:], end)] if text[end:] else parts


def _is_word(character: str) -> bool:
    """Returns whether a character is a Unicode word character, such as a letter or a mark."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or character in "\u200c\u200d"


def clean_up_spaces(text: str) -> str:
    """Removes spaces before punctuation and English contractions, as transformers does."""
    for spaced, replacement in _CLEANED:
        text = text.replace(spaced, replacement)
    return text
