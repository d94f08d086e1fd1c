"""Phrases that each result of `GenerationModel.generate` must contain."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.vocabulary_side import id_range
from keras_attn._models.word_starts import is_without_spaces
from keras_attn._search.constraints import NO_TOKEN
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike
from keras_attn_checks.impossible_parts import impossible_parts
from keras_attn_checks.number_types import is_integer

STOP = "\u3002"
"""Full stop of Chinese and Japanese, after which a word begins without a space."""

Phrase: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]]
"""Text or ids, or several of them as alternatives."""

Constraints: TypeAlias = Sequence[Sequence[Phrase] | None]
"""The phrases of each source, or `None`."""

Phrases: TypeAlias = list[list[list[int]]]
"""The alternatives of each phrase of one source."""


def read_constraints(
    constraints: Constraints,
    count: int,
    tokenizer: TokenizerLike | None,
    search: Search,
    starts: np.ndarray | None = None,
) -> list[Phrases]:
    """Returns the ids of the phrases of each source.

    Args:
        constraints: See `GenerationModel.generate`.
        count: Int, number of sources.
        tokenizer: Target tokenizer, or `None`.
        search: `Search` with the tokens that are never generated.
        starts: Result of `word_starts`. Defaults to `None`: all tokens begin a word.

    Raises:
        ValueError: If the number of sources is wrong, or a phrase is not a text or a list of ids,
            is empty, or contains ids that the search never generates.
    """
    is_list = isinstance(constraints, Iterable) and not isinstance(constraints, str | bytes | dict)
    sources = [*constraints] if is_list else []
    if not is_list or len(sources) != count:
        raise ValueError(
            f"Expected constraints with a list of phrases for each of the {count} sources. "
            f"Received: constraints={constraints!r}. Pass None for a source without phrases."
        )
    size = get_vocabulary_size(search.decoder)
    rows = [
        [] if row is None else [_alternatives(each, tokenizer, starts) for each in _items(row)]
        for row in sources
    ]
    sequences = [*search.suppressed_sequences, *search.stop_sequences]
    never = [*search.end_token_ids, *search.suppressed_token_ids, search.pad_token_id]
    for row in rows:
        for ids in (ids for phrase in row for ids in phrase):
            if min(ids) < 0 or (size is not None and max(ids) >= size):
                raise ValueError(
                    f"Expected constraints with ids {id_range(size)}. Received: a phrase with the "
                    f"ids {ids}. Pass ids of the target vocabulary."
                )
            impossible = impossible_parts(ids, never, sequences)
            if impossible:
                raise ValueError(
                    "Expected constraints without end tokens, padding, suppressed_token_ids, "
                    "suppressed_sequences and stop_sequences. Received: a phrase with the ids "
                    f"{ids}, which contains {impossible[0]}. Remove it."
                )
    return rows


def padded_phrases(rows: Sequence[Phrases], all_rows: Sequence[Phrases]) -> np.ndarray:
    """Returns phrases as an int32 array `(batch, phrases, alternatives, tokens)`.

    The sizes are those that `all_rows` need: JAX compiles the search for each shape.
    """
    phrases = [phrase for row in all_rows for phrase in row]
    shape = (
        max([1, *map(len, all_rows)]),
        max([1, *map(len, phrases)]),
        max([1, *(len(ids) for phrase in phrases for ids in phrase)]),
    )
    array = np.full((len(rows), *shape), NO_TOKEN, "int32")
    for number, row in enumerate(rows):
        for place, phrase in enumerate(row):
            for alternative, ids in enumerate(phrase):
                array[number, place, alternative, : len(ids)] = ids
    return array


def _alternatives(
    phrase: object, tokenizer: TokenizerLike | None, starts: np.ndarray | None
) -> list[list[int]]:
    is_one = isinstance(phrase, str) or _ids(phrase) is not None
    rows = []
    for each in [phrase] if is_one else _items(phrase):
        ids = _ids(each)
        if isinstance(each, str):
            rows += _encode(each, tokenizer, starts)
        elif ids is not None:
            rows.append(ids)
        else:
            raise ValueError(
                "Expected each phrase of constraints to be a text or a list of ids. Received: "
                f"{each!r}. Pass a list of alternatives, or one of them."
            )
    if not rows:
        raise ValueError(
            "Expected each phrase of constraints to have at least one alternative. Received: "
            f"{phrase!r}. Remove the phrase."
        )
    return rows


def _encode(
    text: str, tokenizer: TokenizerLike | None, starts: np.ndarray | None
) -> list[list[int]]:
    """Returns the ids of a text as words of a longer text."""
    if tokenizer is None:
        raise ValueError(
            "Expected a target_tokenizer for constraints that are texts. Received: "
            f"target_tokenizer=None, constraints with {text!r}. Pass the tokenizer, or ids."
        )
    if not text.strip():
        raise ValueError(
            "Expected phrases of constraints that contain a character. Received: "
            f"{text!r}. Remove the phrase."
        )
    rows = [[*map(int, ids)] for ids in tokenizer.encode([text, f" {text}"])]
    if is_without_spaces(text.strip()[0]):
        before, whole = ([*map(int, ids)] for ids in tokenizer.encode([STOP, STOP + text.strip()]))
        if whole[: len(before)] == before:
            rows.append(whole[len(before) :])  # the ids after another word
    unknown = getattr(tokenizer, "unknown_token_id", None)
    if not all(rows) or any(unknown in row for row in rows):
        raise ValueError(
            "Expected constraints of characters that the target vocabulary contains. Received: "
            f"{text!r}. Remove the phrase."
        )
    rows = [row for index, row in enumerate(rows) if row not in rows[:index]]
    # The first word of a text can begin without a space. Its tokens could also end another word.
    words = [row for row in rows if starts is None or starts[row[0]]]
    return words or rows


def _items(phrases: object) -> list[object]:
    is_wrong = isinstance(phrases, str | bytes | dict | set)
    if is_wrong or not isinstance(phrases, Iterable):
        raise ValueError(
            "Expected constraints with a list of phrases for each source. Received: "
            f"{phrases!r}. Pass a list with one phrase."
        )
    return [*phrases]


def _ids(phrase: object) -> list[int] | None:
    """Returns a list of ids, or `None` for other values."""
    if isinstance(phrase, str | bytes | dict | set) or not isinstance(phrase, Iterable):
        return None
    items = [*phrase]
    ids = [int(each) for each in items if is_integer(each)]
    return ids if ids and len(ids) == len(items) else None
