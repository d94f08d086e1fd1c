"""Phrases that each result of `GenerationModel.generate` must contain."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.side import id_range
from keras_attn._search.constraints import NO_TOKEN
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike
from keras_attn_checks.number_types import is_integer

Phrase: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]
"""Text or ids, or several of them as alternatives."""

Constraints: TypeAlias = Sequence[Sequence[Phrase] | None]
"""The phrases of each source, or `None`."""

Phrases: TypeAlias = list[list[list[int]]]
"""The alternatives of each phrase of one source."""


def read_constraints(
    constraints: Constraints, count: int, tokenizer: TokenizerLike | None, search: Search
) -> list[Phrases]:
    """Returns the ids of the phrases of each source.

    Raises:
        ValueError: If the number of sources is wrong, or a phrase is not a text or a list of ids,
            is empty, or contains ids outside of the vocabulary.
    """
    if isinstance(constraints, str) or len(constraints) != count:
        raise ValueError(
            f"Expected constraints with a list of phrases for each of the {count} sources. "
            f"Received: constraints={constraints!r}. Pass None for a source without phrases."
        )
    size = get_vocabulary_size(search.decoder)
    rows = [[_alternatives(each, tokenizer) for each in _items(row or [])] for row in constraints]
    for row in rows:
        for ids in (ids for phrase in row for ids in phrase):
            if not ids or min(ids) < 0 or (size is not None and max(ids) >= size):
                raise ValueError(
                    f"Expected constraints with ids {id_range(size)}. Received: a phrase with the "
                    f"ids {ids}. Pass ids of the target vocabulary."
                )
    return rows


def padded_phrases(rows: Sequence[Phrases]) -> np.ndarray:
    """Returns phrases as an int32 array `(batch, phrases, alternatives, tokens)`."""
    phrases = [phrase for row in rows for phrase in row]
    shape = (
        max([1, *map(len, rows)]),
        max([1, *map(len, phrases)]),
        max([1, *(len(ids) for phrase in phrases for ids in phrase)]),
    )
    array = np.full((len(rows), *shape), NO_TOKEN, "int32")
    for number, row in enumerate(rows):
        for place, phrase in enumerate(row):
            for alternative, ids in enumerate(phrase):
                array[number, place, alternative, : len(ids)] = ids
    return array


def _alternatives(phrase: object, tokenizer: TokenizerLike | None) -> list[list[int]]:
    is_one = isinstance(phrase, str) or _ids(phrase) is not None
    rows = []
    for each in [phrase] if is_one else _items(phrase):
        ids = _ids(each)
        if isinstance(each, str):
            rows += _encode(each, tokenizer)
        elif ids is not None:
            rows.append(ids)
        else:
            raise ValueError(
                "Expected each phrase of constraints to be a text or a list of ids. Received: "
                f"{each!r}."
            )
    if not rows:
        raise ValueError(
            "Expected each phrase of constraints to have at least one alternative. Received: "
            f"{phrase!r}. Remove the phrase."
        )
    return rows


def _encode(text: str, tokenizer: TokenizerLike | None) -> list[list[int]]:
    """Returns the ids of a text, at the beginning of a result and after a space."""
    if tokenizer is None:
        raise ValueError(
            "Expected a target_tokenizer for constraints that are texts. Received: "
            f"target_tokenizer=None, constraints with {text!r}. Pass the tokenizer, or ids."
        )
    first, after_space = ([*map(int, ids)] for ids in tokenizer.encode([text, f" {text}"]))
    unknown = getattr(tokenizer, "unknown_token_id", None)
    if not first or unknown in first:
        raise ValueError(
            "Expected constraints of characters that the target vocabulary contains. Received: "
            f"{text!r}. Remove the phrase."
        )
    return [first] if first == after_space else [first, after_space]


def _items(phrases: object) -> list[object]:
    if isinstance(phrases, str) or not isinstance(phrases, Iterable):
        raise ValueError(
            "Expected constraints with a list of phrases for each source. Received: "
            f"{phrases!r}. Pass a list with one phrase."
        )
    return [*phrases]


def _ids(phrase: object) -> list[int] | None:
    """Returns a list of ids, or `None` for other values."""
    if isinstance(phrase, str) or not isinstance(phrase, Iterable):
        return None
    items = [*phrase]
    ids = [int(each) for each in items if is_integer(each)]
    return ids if ids and len(ids) == len(items) else None
