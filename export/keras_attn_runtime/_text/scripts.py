"""Scripts that do not separate words by spaces."""

RANGES = (
    (0x0E00, 0x0EFF),  # Thai and Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0xA4CF),  # Chinese, Japanese and Yi
    (0xF900, 0xFAFF),  # Chinese
    (0x20000, 0x3FFFF),  # Chinese
)
"""Ranges of code points."""


def is_without_spaces(character: str) -> bool:
    """Returns whether a word can begin at a character without a space before it."""
    return any(first <= ord(character) <= last for first, last in RANGES)
