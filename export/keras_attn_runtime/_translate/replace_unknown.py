"""Replaces unknown tokens of a translation by words of the source text.

Each unknown token is replaced by the source word with the largest attention weight at its step
(Jean et al., 2015, https://arxiv.org/abs/1412.2007, section 3.3; Luong et al., 2015,
https://arxiv.org/abs/1410.8206).
"""

import dataclasses
from collections.abc import Sequence

from keras_attn_runtime._array_types import Floats
from keras_attn_runtime._generation_result import Hypothesis
from keras_attn_runtime._text.scripts import is_without_spaces
from keras_attn_runtime._text.source_words import SourceWord
from keras_attn_runtime._text.tokenizer import Tokenizer

MARK = "\U0010ffff"
"""Stands for an unknown token in a decoded text: a code point that is no character."""


def with_source_words(
    hypothesis: Hypothesis,
    weights: Floats,
    words: Sequence[SourceWord | None],
    tokenizer: Tokenizer,
) -> Hypothesis:
    """Returns a hypothesis whose text contains source words instead of unknown tokens.

    Args:
        hypothesis: `Hypothesis`. If a stop text has cut it, its text can contain a part of the next
            token.
        weights, words, tokenizer: see `text_with_source_words`.
    """
    token_ids = hypothesis.token_ids
    text = text_with_source_words(token_ids, weights, words, tokenizer)
    if text is None:
        return hypothesis
    rest = (hypothesis.text or "")[len(tokenizer.decode(token_ids)) :]
    return dataclasses.replace(hypothesis, text=text + rest)


def text_with_source_words(
    token_ids: Sequence[int],
    weights: Floats,
    words: Sequence[SourceWord | None],
    tokenizer: Tokenizer,
) -> str | None:
    """Returns the text of a translation, or `None` if nothing is replaced.

    Args:
        token_ids: list of target ids.
        weights: float array of shape `(target, source)`, the attention weights.
        words: list of the word of each source position, `None` at special tokens. The list can end
            before the last position.
        tokenizer: `Tokenizer` of the target.
    """
    steps = [step for step, id in enumerate(token_ids) if id == tokenizer.unknown_token_id]
    choices = [(position, word) for position, word in enumerate(words) if word is not None]
    if not steps or not choices:
        return None
    columns = [position for position, _ in choices]
    # The first of equal weights.
    best: list[int] = weights[steps][:, columns].argmax(axis=1).tolist()
    chosen = [choices[index][1] for index in best]
    return insert_words(tokenizer.decode_with_mark(token_ids, MARK), chosen)


def insert_words(marked: str, words: Sequence[SourceWord]) -> str:
    """Replaces marks in a text by words.

    Marks of the same word copy it once if they are in one word of the text, or only white space is
    between them. Text directly before a word that repeats its beginning, and text directly after it
    that repeats its end, is left out: Z + Zürich + rich becomes Zürich.

    Args:
        marked: string that contains a `MARK` for each word.
        words: list of `SourceWord`.
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
