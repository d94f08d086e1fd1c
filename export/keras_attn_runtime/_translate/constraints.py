"""Constraints: phrases that each hypothesis must contain."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from keras_attn_runtime._array_types import is_in_memory, is_integer
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._inputs.sentences import has_items
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._text.scripts import is_without_spaces
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.read_each import read_each

STOP = "\u3002"
"""Full stop of Chinese and Japanese, after which a word begins without a space."""

MOST_PHRASES = 64
"""Largest number of phrases of a sentence."""

Phrase: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]
"""A text or ids, or several of them as alternatives."""

Constraints: TypeAlias = Sequence[Phrase]
"""The phrases of one sentence."""


class ConstraintReader:
    """Checks phrases and adds them to `Source`s.

    Args:
        settings: `Settings` of the file.
        tokenizer: `Tokenizer`, the target tokenizer. Default: none, so that phrases must be ids.
        max_characters: int, maximum number of characters (code points) in a phrase.
    """

    def __init__(
        self, settings: Settings, tokenizer: Tokenizer | None, max_characters: int
    ) -> None:
        self._tokenizer = tokenizer
        self._max_characters = max_characters
        self._size = settings.target.vocabulary_size
        self._impossible = {
            settings.target.pad_token_id,
            *settings.end_token_ids,
            *settings.suppressed_token_ids,
        }
        self._sequences = [*settings.suppressed_sequences, *settings.stop_sequences]

    def add_to(self, sources: Iterable[Source], constraints: object) -> Iterator[Source]:
        """Returns an iterator over copies of the sources with phrases.

        Args:
            sources: iterable of `Source`s.
            constraints: iterable with an item for each source: `None`, or a list of phrases. A
                phrase is a string or a list of ids, or a list of these alternatives.

        Raises:
            ValueError: if `constraints` has a wrong type, or the numbers of items and sources
                differ.
            InputError: if a sentence's phrase is not valid.
        """
        if isinstance(constraints, str) or not has_items(constraints):
            raise ValueError(
                "Expected constraints to be a list with a list of phrases for each sentence. "
                f"Received: type={type(constraints).__name__}. Pass None for a sentence without "
                "phrases."
            )

        def read(phrases: object) -> list[list[list[int]]]:
            items = [] if phrases is None else _items(phrases)
            if len(items) > MOST_PHRASES:
                raise ValueError(
                    f"Expected at most {MOST_PHRASES} phrases for a sentence. Received: "
                    f"{len(items)} phrases. The time grows with their square; split the sentence."
                )
            return [*map(self.read_phrase, items)]

        pairs = read_each(sources, constraints, read, "list of constraints")
        return (dataclasses.replace(source, constraints=ids) for source, ids in pairs)

    def read_phrase(self, phrase: object) -> list[list[int]]:
        """Returns the alternatives of a phrase; raises ValueError if one is not valid."""
        is_one = isinstance(phrase, str) or _ids(phrase) is not None
        is_one = is_one or not is_in_memory(phrase)
        alternatives = [phrase] if is_one else _items(phrase)
        rows = [ids for each in alternatives for ids in self._read_alternative(each)]
        if not rows:
            raise ValueError(
                "Expected a phrase of constraints with at least one alternative. Received: "
                f"{phrase!r}. Remove the phrase."
            )
        return rows

    def _read_alternative(self, alternative: object) -> list[list[int]]:
        if isinstance(alternative, str):
            rows = self._encode(alternative)
        else:
            ids = _ids(alternative)
            if ids is None:
                raise ValueError(
                    "Expected a phrase of constraints to be a string or a list of ids. Received: "
                    f"{alternative!r}. Pass a list of alternatives, or one of them."
                )
            rows = [ids]
        for row in rows:
            if not row or min(row) < 0 or max(row) >= self._size:
                raise ValueError(
                    f"Expected constraints with ids in [0, {self._size}), the target vocabulary. "
                    f"Received: {alternative!r}. Pass ids of the target."
                )
            never: list[object] = [each for each in row if each in self._impossible]
            never += [each for each in self._sequences if _contains(row, each)]
            if never:
                raise ValueError(
                    "Expected constraints without tokens that the search never generates. "
                    f"Received: {alternative!r} with the token {never[0]}. Remove the phrase."
                )
        return rows

    def _encode(self, text: str) -> list[list[int]]:
        """Returns the ids of a text as words of a longer text."""
        tokenizer = self._tokenizer
        if tokenizer is None:
            raise ValueError(
                "Expected constraints of ids for a file without a target tokenizer. Received: "
                f"{text!r}. Pass lists of ids."
            )
        if not text.strip() or len(text) > self._max_characters:
            raise ValueError(
                f"Expected a phrase with 1 to {self._max_characters} characters besides spaces. "
                f"Received: {text[:100]!r} with {len(text)} characters. Remove or shorten it."
            )
        rows = [tokenizer.encode(text), tokenizer.encode(f" {text}")]
        if is_without_spaces(text.strip()[0]):
            before, whole = tokenizer.encode(STOP), tokenizer.encode(STOP + text.strip())
            if whole[: len(before)] == before:
                rows.append(whole[len(before) :])  # the ids after another word
        if not all(rows) or any(tokenizer.unknown_token_id in row for row in rows):
            raise ValueError(
                "Expected constraints of characters that the target vocabulary contains. "
                f"Received: {text!r}. Remove the phrase."
            )
        rows = [row for index, row in enumerate(rows) if row not in rows[:index]]
        # The first word of a text can begin without a space. Its tokens could also end another
        # word.
        return [row for row in rows if _begins_word(row[0], tokenizer)] or rows


def _begins_word(token_id: int, tokenizer: Tokenizer) -> bool:
    letter = tokenizer.encode("a")
    before, after = tokenizer.decode(letter), tokenizer.decode([*letter, token_id])
    first = after[len(before) :][:1]
    return not first.isalnum() or is_without_spaces(first)


def _contains(ids: list[int], sequence: list[int]) -> bool:
    starts = range(len(ids) - len(sequence) + 1)
    return any(ids[start : start + len(sequence)] == sequence for start in starts)


def _items(phrases: object) -> list[object]:
    if not is_in_memory(phrases) or not has_items(phrases):
        raise ValueError(
            "Expected constraints to have a list of phrases for each sentence. Received: "
            f"{phrases!r}. Pass a list with one phrase."
        )
    return [*phrases]


def _ids(phrase: object) -> list[int] | None:
    """Returns a list of ids, or `None` for other values."""
    if not is_in_memory(phrase) or not has_items(phrase):
        return None
    items = [*phrase]
    ids = [int(each) for each in items if is_integer(each)]
    return ids if ids and len(ids) == len(items) else None
