"""Training text for SentencePiece tokenizers."""

from collections.abc import Iterator

from keras_attn._files.lines import read_lines

LONGEST_LINE = 2**16
"""Maximum number of bytes in a line. The trainer drops longer lines. Its default is 4,192."""

RESERVED = ("<s>", "</s>", "<unk>", "\u2581", "\ufffd")
"""Strings that the trainer does not count as text: special tokens, space symbol, U+FFFD."""


class TrainingSentences:
    """Streams lines from text files to the SentencePiece trainer and stores errors.

    Lines that are too long for the trainer are split, at spaces if possible.

    The trainer is a C++ extension that loses exceptions from its input iterator. Therefore an error
    ends the iteration and is stored. After training, call `check` to raise it.

    Args:
        files: List of paths of text files, plain or `.gz`.
    """

    def __init__(self, files: list) -> None:
        self.files = files
        self.found_text = False
        self.error = None

    def __iter__(self) -> Iterator[str]:
        try:
            for file in self.files:
                for line in read_lines(file):
                    # The trainer drops lines that contain a tab.
                    for sentence in line.split("\t"):
                        for part in _parts(sentence, LONGEST_LINE // 4):  # 4 bytes per character
                            if _is_text(part):
                                self.found_text = True
                                yield part
        except (ValueError, OSError) as error:
            self.error = error

    def check(self) -> None:
        """Raises the stored error, or a `ValueError` if there was no text."""
        if self.error is not None:
            raise self.error
        if not self.found_text:
            raise ValueError(
                "Expected text to train a tokenizer on. Received: files="
                f"{[str(file) for file in self.files]} without any visible character."
            )


def _is_text(part):
    """Returns whether a line contains training text. The trainer aborts if no line does."""
    for reserved in RESERVED:
        part = part.replace(reserved, "")
    return any(c.isprintable() and not c.isspace() for c in part)


def _parts(text, longest):
    """Splits a text into parts with at most `longest` characters, if possible after spaces."""
    while len(text) > longest:
        end = text.rfind(" ", 0, longest) + 1 or longest
        yield text[:end]
        text = text[end:]
    yield text
