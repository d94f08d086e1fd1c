"""Constraints: phrases that each hypothesis must contain."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from keras_attn_runtime._array_types import is_in_memory, is_integer
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._inputs.sentences import has_items
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.read_each import read_each

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
                f"Received: type={type(constraints).__name__}."
            )

        def read(phrases: object) -> list[list[list[int]]]:
            return [] if phrases is None else [*map(self._read, _items(phrases))]

        pairs = read_each(sources, constraints, read, "list of constraints")
        return (dataclasses.replace(source, constraints=ids) for source, ids in pairs)

    def _read(self, phrase: object) -> list[list[int]]:
        """Returns the alternatives of a phrase."""
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
                    f"{alternative!r}."
                )
            rows = [ids]
        for row in rows:
            if not row or min(row) < 0 or max(row) >= self._size:
                raise ValueError(
                    f"Expected constraints with ids in [0, {self._size}), the target vocabulary. "
                    f"Received: {alternative!r}."
                )
            never = [each for each in row if each in self._impossible]
            if never:
                raise ValueError(
                    "Expected constraints without tokens that the search never generates. "
                    f"Received: {alternative!r} with the token {never[0]}."
                )
        return rows

    def _encode(self, text: str) -> list[list[int]]:
        """Returns the ids of a text, at the beginning of an output and after a space."""
        if self._tokenizer is None:
            raise ValueError(
                "Expected constraints of ids for a file without a target tokenizer. Received: "
                f"{text!r}."
            )
        if not text.strip() or len(text) > self._max_characters:
            raise ValueError(
                f"Expected a phrase of 1 to {self._max_characters} characters. Received: "
                f"{len(text)} characters."
            )
        rows = [self._tokenizer.encode(text), self._tokenizer.encode(f" {text}")]
        if any(self._tokenizer.unknown_token_id in row for row in rows):
            raise ValueError(
                "Expected constraints of characters that the target vocabulary contains. "
                f"Received: {text!r}."
            )
        return rows[:1] if rows[0] == rows[1] else rows


def _items(phrases: object) -> list[object]:
    if not isinstance(phrases, (list, tuple)):
        raise ValueError(
            "Expected constraints to have a list of phrases for each sentence. Received: "
            f"{phrases!r}. Pass a list with one phrase."
        )
    return [*cast(Iterable[object], phrases)]


def _ids(phrase: object) -> list[int] | None:
    """Returns a list of ids, or `None` for other values."""
    if not is_in_memory(phrase) or not has_items(phrase):
        return None
    items = [*phrase]
    ids = [int(each) for each in items if is_integer(each)]
    return ids if ids and len(ids) == len(items) else None
