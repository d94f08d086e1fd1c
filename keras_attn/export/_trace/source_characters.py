"""Limit of the characters of a text, because tokenization may take quadratic time."""

from keras_attn._models.vocabulary_side import Side

CHARACTERS_PER_TOKEN = 32
MAX_SOURCE_LENGTH = 512
"""Both constants are the defaults of keras_attn_runtime."""

MAX_PREFIX_CHARACTERS = 16_384


def max_source_characters(source: Side, value: int | None = None) -> int:
    """Returns the maximum length of a source text, in characters (code points).

    The limit applies to exported files that contain tokenizers.

    Args:
        source: `Side` of the source.
        value: Positive int, or `None`. As in the runtime, `None` means 32 times the maximum number
            of source tokens, at most 32 * 512.
    """
    if value is None:
        limits = [MAX_SOURCE_LENGTH, source.max_length]
        return CHARACTERS_PER_TOKEN * min(limit for limit in limits if limit is not None)
    return value
