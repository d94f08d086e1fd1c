"""Values that are added to the log probabilities of tokens."""

import math
from collections.abc import Mapping
from typing import TypeAlias, cast

from keras_attn_runtime._array_types import is_integer
from keras_attn_runtime._calls.argument_checks import require_number
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._text.tokenizer import Tokenizer

TokenBias: TypeAlias = Mapping[str, float] | Mapping[int, float]

IMPOSSIBLE = -1e9
"""Bias of a forbidden token."""


def read_token_bias(
    token_bias: object, settings: Settings, tokenizer: Tokenizer | None
) -> dict[int, float]:
    """Returns a dict from target ids to biases.

    Args:
        token_bias: dict from texts or target ids to numbers. A text must be one token.
        settings: `Settings` of the file.
        tokenizer: target tokenizer, or `None`.

    Raises:
        ValueError: if a key is not a token, or a value is not a number.
    """
    if not isinstance(token_bias, Mapping):
        raise ValueError(
            "Expected token_bias to be a dict from texts or ids to numbers. Received: "
            f"type={type(token_bias).__name__}."
        )
    size = settings.target.vocabulary_size
    biases: dict[int, float] = {}
    for key, value in cast(Mapping[object, object], token_bias).items():
        if value == -math.inf:
            value = IMPOSSIBLE
        bias = require_number(f"token_bias[{key!r}]", value, least=IMPOSSIBLE, most=-IMPOSSIBLE)
        if is_integer(key):
            ids = [int(key)]
        elif isinstance(key, str):
            ids = _ids_of_text(key, tokenizer)
        else:
            ids: list[int] = []
        if not ids or min(ids) < 0 or max(ids) >= size:
            raise ValueError(
                f"Expected token_bias of texts, or ids in [0, {size}), the target vocabulary. "
                f"Received: {key!r}."
            )
        biases |= dict.fromkeys(ids, bias)
    return biases


def biases_of_ids(token_bias: TokenBias | None) -> dict[int, float]:
    """Returns the biases that `read_token_bias` has read, with the type of their ids."""
    return {key: value for key, value in (token_bias or {}).items() if isinstance(key, int)}


def _ids_of_text(text: str, tokenizer: Tokenizer | None) -> list[int]:
    """Returns the token of a text, at the beginning of an output and after a space."""
    if tokenizer is None:
        raise ValueError(
            f"Expected token_bias of ids for a file without a target tokenizer. Received: {text!r}."
        )
    rows = [tokenizer.encode(text), tokenizer.encode(f" {text}")]
    ids = [row[0] for row in rows if len(row) == 1 and row[0] != tokenizer.unknown_token_id]
    if not ids:
        raise ValueError(
            "Expected token_bias of texts that are one token. Received: "
            f"{text!r}, which is {tokenizer.pieces(rows[0])}. Export with suppressed_sequences to "
            "ban a word of several tokens."
        )
    return ids
