"""The errors of the runtime: ValueErrors for the input, and those that end a call early."""

import contextlib


class ModelFileError(ValueError):
    """The file is damaged, not exported by keras_attn, or of a format this version cannot read."""


class BatchError(ModelFileError):
    """ONNX Runtime cannot run the model on one batch: memory is short, or the file is damaged.

    Args:
        reason: string, what it says and what to do.
        index: int, position in the input, from 0, of the sentence that is to blame. Default: none
            in particular.
    """

    def __init__(self, reason, index=None):
        where = "" if index is None else f"Sentence {index} (counted from 0): "
        super().__init__(f"{where}{reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self):  # by default an exception is created again from its message
        return type(self), (self.reason, self.index)


class ProviderError(ValueError):
    """The execution provider that was asked for cannot be used on this machine."""


class SentenceError(ValueError):
    """One sentence of the input cannot be translated.

    Args:
        index: int, position of the sentence in the input, from 0.
        reason: string, what is wrong with it and what to do.
    """

    def __init__(self, index, reason):
        super().__init__(f"Sentence {index} (counted from 0): {reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self):  # see `BatchError`
        return type(self), (self.index, self.reason)


class DeadlineExceeded(TimeoutError):
    """A call of a `Translator` did not finish within its `timeout`.

    Attributes:
        index: int, position in the input, from 0, of the first sentence without a translation.
        translations: list, of a method that returns a list: a `Translation` for each sentence that
            was read, `None` for those without one. An iterator has yielded what is before `index`;
            there it is empty.
    """

    def __init__(self, message, index=0):
        super().__init__(message)
        self.index = index
        self.translations = []


class Cancelled(RuntimeError):
    """A call of a `Translator` was ended by its `cancel_token`.

    Attributes:
        index, translations: see `DeadlineExceeded`.
    """

    def __init__(self, message, index=0):
        super().__init__(message)
        self.index = index
        self.translations = []


def in_one_line(error):
    """The text of an error of ONNX Runtime, which ends with a line break, or has several.

    Where it names all nodes of a graph, what is in the middle is left out.
    """
    text = " ".join(str(error).split())
    return text if len(text) <= 600 else f"{text[:200]} ... {text[-400:]}"


@contextlib.contextmanager
def run_failures(batch, source_length):
    """Turns what ONNX Runtime, or NumPy for want of memory, raises in it into a `BatchError`.

    Args:
        batch: int, rows of the batch.
        source_length: int, tokens of the longest one, or `None` if they are no ids.
    """
    rows = f"{batch} rows"
    if source_length is not None:
        rows = f"{batch} sentences of up to {source_length} tokens"
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:  # the exceptions of ONNX Runtime have no common base class
        raise BatchError(
            f"ONNX Runtime failed on {rows}: {in_one_line(error)}. "
            "Try fewer or shorter ones; if it stays, the file is damaged."
        ) from error
