"""Added tokens: strings that are one id wherever a text contains them."""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Unicode white space. Four separators, which `\s` in Python also matches, are not white space.
_SPACES = re.compile(r"[^\S\x1c-\x1f]*")
_LAST_SPACES = re.compile(r"[^\S\x1c-\x1f]*$")


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A string that is one id wherever a text contains it, whatever surrounds it.

    The arguments are the same as for `AddedToken` in the library `tokenizers`. The token is
    searched in the text before normalization.

    Args:
        content: String, the token.
        id: Int, its id.
        special: Bool, whether the token is removed when ids are decoded. Defaults to `False`.
        lstrip: Bool, whether the token includes white space before it. Defaults to `False`.
        rstrip: Bool, whether the token includes white space after it. Defaults to `False`.
        single_word: Bool, whether the token is only found as a whole word. Defaults to `False`.

    Raises:
        ValueError: If the content is empty, or the id is negative.

    Example:

    >>> from keras_attn.text import AddedToken
    >>> AddedToken("<sep>", 32100).entries()
    {'content': '<sep>', 'id': 32100}
    """

    content: str
    id: int
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.content, str) or not self.content:
            raise ValueError(
                f"Expected content to be a string of at least one character. Received: content="
                f"{self.content!r}."
            )
        if not isinstance(self.id, int) or self.id < 0:
            raise ValueError(f"Expected id to be an int of at least 0. Received: id={self.id!r}.")

    def entries(self) -> dict[str, Any]:
        """Returns a dict from argument names to values, without `False`."""
        return {name: value for name, value in vars(self).items() if value is not False}


class AddedTokenSplitter:
    """Finds the added tokens in texts.

    At each position, the longest token wins. A token that `single_word` forbids hides the tokens
    inside it, as in the library `tokenizers`.

    Args:
        tokens: Iterable of `AddedToken`s.
        space_token_id: Int, id to insert between white space and a token after it, see
            `SentencePieceTokenizer`. Defaults to `None`: no id.
        ends_with_space: Function `(text)` that returns whether the normalized text ends with a
            space. Defaults to a test for white space without normalization.
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

    def encode(
        self, texts: Sequence[str], encode: Callable[[list[str]], list[list[int]]]
    ) -> list[list[int]]:
        """Encodes texts with added tokens.

        Args:
            texts: List of strings.
            encode: Function that encodes the parts between added tokens.

        Returns:
            One list of ids per text.
        """
        split = [self.split(text) for text in texts]
        strings = [part for parts in split for part in parts if isinstance(part, str)]
        encoded = iter(encode(strings))
        rows = []
        for parts in split:
            ids = ([part] if isinstance(part, int) else next(encoded) for part in parts)
            rows.append([id_ for part in ids for id_ in part])
        return rows


def _is_word(character: str) -> bool:
    """Returns whether a character is a Unicode word character, such as a letter or a mark."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or character in "\u200c\u200d"


def clean_up_spaces(text: str) -> str:
    """Removes spaces before punctuation and English contractions.

    The same function implements `clean_up_tokenization_spaces` in transformers.

    Args:
        text: String.
    """
    for spaced, replacement in CLEANED:
        text = text.replace(spaced, replacement)
    return text


CLEANED = (
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
"""Pairs of strings, in replacement order."""
