"""The limit of characters of a text before the tokenizer, whose time may be quadratic."""

from typing import Any

CHARACTERS_PER_TOKEN = 32
MAX_SOURCE_LENGTH = 512
"""Both as in keras_attn_runtime."""

MAX_PREFIX_CHARACTERS = 16_384


def max_source_characters(function: Any, value: Any = None) -> Any:
    """The limit of characters (code points) of a text that a file with tokenizers reads.

    Args:
        function: `SearchFunction`.
        value: int of at least 1, or `None` for 32 times the limit of tokens, which is that of the
            encoder, but at most 512, as in the runtime.

    Raises:
        ValueError: `value` is no int of at least 1.
    """
    if value is None:
        limits = [MAX_SOURCE_LENGTH, function.source.max_length]
        return CHARACTERS_PER_TOKEN * min(limit for limit in limits if limit is not None)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise ValueError(
            "Expected max_source_characters to be an int in [1, 2**31). Received: "
            f"max_source_characters={value!r}."
        )
    return value
