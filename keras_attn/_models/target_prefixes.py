"""Prefixes of the targets in `GenerationModel.generate`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.generation_result import Hypothesis
from keras_attn._models.request_languages import RequestLanguages
from keras_attn._models.vocabulary_side import id_range
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike

if TYPE_CHECKING:
    from keras_attn._models.generation_model import GenerationModel

TargetPrefix: TypeAlias = str | Sequence[int] | Sequence[str | Sequence[int]]
"""Text or ids with which all results begin, or a list with a prefix for each source."""


def read_prefixes(
    target_prefix: TargetPrefix | None,
    languages: RequestLanguages,
    count: int,
    tokenizer: TokenizerLike | None,
    model: "GenerationModel",
) -> list[list[int]] | None:
    """Returns a list with the prefix ids of each result, or `None` if all prefixes are empty."""
    if target_prefix is None:
        rows: list[Any] = [[]] * count
    else:
        is_one = isinstance(target_prefix, str) or all(
            isinstance(item, int | np.integer) for item in target_prefix
        )
        rows = [target_prefix] * count if is_one else list(target_prefix)
        if len(rows) != count:
            raise ValueError(
                f"Expected target_prefix to be one prefix, or one for each of the {count} sources. "
                f"Received: target_prefix with {len(rows)} prefixes. Pass {count} prefixes."
            )
        rows = [_prefix_ids(prefix, tokenizer, model.search.pad_token_id) for prefix in rows]
    if not languages.target_start and not any(rows):
        return None
    rows = [[*languages.target_start, *row] for row in rows]
    for row in rows:
        _check_end_token(row, model.search)
    size = get_vocabulary_size(model.decoder)
    wrong = [id_ for row in rows for id_ in row if id_ < 0 or (size is not None and id_ >= size)]
    if wrong:
        raise ValueError(
            f"Expected target_prefix to contain ids {id_range(size)}. Received: target_prefix "
            f"with the id {wrong[0]}. Pass ids of the target vocabulary."
        )
    return rows


def check_whole_prefix(prefix: list[int], hypothesis: Hypothesis, search: Search) -> None:
    """Raises a `ValueError` if a limit of the search has cut the prefix of a hypothesis."""
    expected = [*search.forced_prefix_ids, *prefix]
    if expected and expected[-1] in search.end_token_ids:
        expected.pop()
    if hypothesis.token_ids[: len(expected)] != expected:
        raise ValueError(
            f"Expected a target_prefix of at most {len(hypothesis.token_ids)} tokens, the ids of "
            f"the language included. Received: target_prefix with {len(expected)} tokens. The "
            "limit is max_length, relative_max_length or the number of learned positions."
        )


def _check_end_token(prefix: list[int], search: Search) -> None:
    """Raises a `ValueError` if a prefix contains padding, or tokens after an end token.

    A search ends a hypothesis at an end token, and ignores the rest of the prefix.
    """
    ends = [("other_end_token_ids", token, prefix[:-1]) for token in search.other_end_token_ids]
    for name, token, tokens in (
        ("pad_token_id", search.pad_token_id, prefix),
        ("end_token_id", search.end_token_id, prefix[:-1]),
        *ends,
    ):
        if token in tokens:
            raise ValueError(
                f"Expected {name}={token} only at the end of a target_prefix. Received: "
                f"target_prefix with this id at position {tokens.index(token)}. Remove it."
            )


def _prefix_ids(
    prefix: str | Iterable[int], tokenizer: TokenizerLike | None, pad_token_id: int
) -> list[int]:
    if not isinstance(prefix, str):
        ids = [int(id_) for id_ in prefix]
        while ids and ids[-1] == pad_token_id:
            ids.pop()
        return ids
    if tokenizer is None:
        raise ValueError(
            "Expected a target_tokenizer for a target_prefix that is a text. Received: "
            "target_tokenizer=None. Pass the tokenizer of the targets, or ids."
        )
    return [int(id_) for id_ in tokenizer.encode([prefix])[0]]
