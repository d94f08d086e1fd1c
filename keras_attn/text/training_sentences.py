"""Training text of a SentencePiece tokenizer."""

from collections.abc import Iterator

from keras_attn._files.lines import read_lines

LONGEST_LINE = 2**16
"""Maximum number of bytes of a line; the trainer drops longer lines. Its default is 4,192."""

RESERVED = ("<s>", "</s>", "<unk>", "\u2581", "\ufffd")
"""Text that the trainer treats specially: special tokens, its space, and U+FFFD."""


class TrainingSentences:
    """Streams the lines of text files to the SentencePiece trainer, and stores errors.

    Lines that the trainer would drop because of their length are split, at spaces if possible.

    The trainer is a C++ extension, in which an exception of its input would be lost. So an error
    ends the input, and `check`, which is called after training, raises it.

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
                    # The trainer drops lines with a tab, which it reserves.
                    for sentence in line.split("\t"):
                        for part in _parts(sentence, LONGEST_LINE // 4):  # 4 bytes per character
                            if _is_text(part):
                                self.found_text = True
                                yield part
        except (ValueError, OSError) as error:
            self.error = error

    def check(self) -> None:
        """Raises the error that ended the input, or a `ValueError` if there was no text."""
        if self.error is not None:
            raise self.error
        if not self.found_text:
            raise ValueError(
                "Expected text to train a tokenizer on. Received: files="
                f"{[str(file) for file in self.files]} without any visible character."
            )


def _is_text(part):
    """Returns whether a line has text for the trainer, which aborts the process if no line has."""
    for reserved in RESERVED:
        part = part.replace(reserved, "")
    return any(c.isprintable() and not c.isspace() for c in part)


def _parts(text, longest):
    """Splits a text into parts of at most `longest` characters, after spaces if possible."""
    while len(text) > longest:
        end = text.rfind(" ", 0, longest) + 1 or longest
        yield text[:end]
        text = text[end:]
    yield text
