"""Checks of strings that UTF-8 cannot encode."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def is_unicode(text: str) -> bool:
    """Returns whether a string has no lone surrogate, which UTF-8 cannot encode."""
    return text.isascii() or text == text.encode("utf-8", "ignore").decode("utf-8")


@contextmanager
def explain_text_errors(texts: Sequence[str]) -> Iterator[None]:
    """Context manager that explains why a tokenizer cannot encode texts.

    Speed: the texts are only checked after the tokenizer has raised a `TypeError` or a
    `UnicodeEncodeError`, so valid texts cost nothing.

    Args:
        texts: List of strings.

    Raises:
        ValueError: If a text is not a string, or has a lone surrogate.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError) as error:
        for row, text in enumerate(texts):
            if not isinstance(text, (str, bytes)):
                raise ValueError(
                    f"Expected a list of strings. Received: texts[{row}]={text!r}."
                ) from error
            if isinstance(text, str) and not is_unicode(text):
                raise ValueError(
                    "Expected texts that UTF-8 can encode. Received: a lone surrogate in "
                    f"texts[{row}]={ascii(text[:80])}. Read files with encoding='utf-8', or "
                    "replace it: text.encode('utf-8', 'replace').decode()."
                ) from error
        raise
