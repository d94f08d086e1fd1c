"""Values that `GenerationModel.generate` adds to the log probabilities of tokens."""

import math
from collections.abc import Mapping

import numpy as np

from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.vocabulary_side import id_range
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike
from keras_attn_checks.number_types import is_integer, is_number


def read_token_bias(
    token_bias: Mapping[str, float] | Mapping[int, float],
    tokenizer: TokenizerLike | None,
    search: Search,
) -> dict[str, np.ndarray]:
    """Returns the search inputs `token_bias_ids` and `token_bias_values` of one source.

    Raises:
        ValueError: If a key is neither an id nor a text that is one token, or a value is not a
            number.
    """
    if not isinstance(token_bias, Mapping):
        raise ValueError(
            "Expected token_bias to be a dict from texts or ids to numbers. Received: "
            f"token_bias of type {type(token_bias).__name__}."
        )
    size, biases = get_vocabulary_size(search.decoder), {}
    for key, value in token_bias.items():
        if not is_number(value) or math.isnan(value):
            raise ValueError(
                f"Expected the values of token_bias to be numbers. Received: {value!r} for {key!r}."
            )
        ids = _ids(key, tokenizer) if isinstance(key, str) else [key]
        for each in ids:
            if not is_integer(each) or each < 0 or (size is not None and each >= size):
                raise ValueError(
                    f"Expected token_bias of texts, or ids {id_range(size)}. Received: {key!r}. "
                    "Pass ids of the target vocabulary."
                )
            biases[int(each)] = max(float(value), IMPOSSIBLE)
    return {
        "token_bias_ids": np.array([*biases], "int32"),
        "token_bias_values": np.array([*biases.values()], "float32"),
    }


def _ids(text: str, tokenizer: TokenizerLike | None) -> list[int]:
    """Returns the token of a text, at the beginning of a result and after a space."""
    if tokenizer is None:
        raise ValueError(
            "Expected a target_tokenizer for token_bias of texts. Received: target_tokenizer=None, "
            f"token_bias with {text!r}. Pass the tokenizer, or ids."
        )
    rows = tokenizer.encode([text, f" {text}"])
    unknown = getattr(tokenizer, "unknown_token_id", None)
    ids = [int(row[0]) for row in rows if len(row) == 1 and row[0] != unknown]
    if not ids:
        raise ValueError(
            "Expected token_bias of texts that are one token. Received: "
            f"{text!r}, which is the ids {[*map(int, rows[0])]}. Use suppressed_sequences to ban a "
            "word of several tokens."
        )
    return ids
