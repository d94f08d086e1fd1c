"""The text that a tokenizer is trained on."""

from collections.abc import Iterator

from keras_attn._files.lines import read_lines

LONGEST_LINE = 2**16
"""Bytes. The trainer drops longer lines (its own limit is 4,192), which a text on one line has."""

RESERVED = ("<s>", "</s>", "<unk>", "\u2581", "\ufffd")
"""What means something else to the trainer: its special tokens, its space, and what it cannot read
(U+FFFD)."""


class TrainingSentences:
    """Streams the lines of text files to the trainer, and keeps what went wrong meanwhile.

    Lines that the trainer would drop come in several parts, cut at spaces where there are any.

    The trainer is not written in Python: an exception in its input would be lost. It ends the input
    instead, and `check`, called after the training, raises it.

    Args:
        files: paths of text files, plain or `.gz`.
    """

    def __init__(self, files: list) -> None:
        self.files = files
        self.found_text = False
        self.error = None

    def __iter__(self) -> Iterator[str]:
        try:
            for file in self.files:
                for line in read_lines(file):
                    # The trainer drops a whole line for one tab, which is reserved in it.
                    for sentence in line.split("\t"):
                        for part in _parts(sentence, LONGEST_LINE // 4):  # bytes of a character
                            if _is_text(part):
                                self.found_text = True
                                yield part
        except (ValueError, OSError) as error:
            self.error = error

    def check(self) -> None:
        """Raises the error that ended the input, or `ValueError` where there was no text."""
        if self.error is not None:
            raise self.error
        if not self.found_text:
            raise ValueError(
                "Expected text to train a tokenizer on. Received: files="
                f"{[str(file) for file in self.files]}, in which no line has a visible character."
            )


def _is_text(part):
    """Whether the trainer finds something in a line: it aborts the process where none has any."""
    for reserved in RESERVED:
        part = part.replace(reserved, "")
    return any(c.isprintable() and not c.isspace() for c in part)


def _parts(text, longest):
    """Cuts a text into parts of at most `longest` characters, behind spaces where there are any."""
    while len(text) > longest:
        end = text.rfind(" ", 0, longest) + 1 or longest
        yield text[:end]
        text = text[end:]
    yield text
