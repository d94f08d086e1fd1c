"""Runtime errors: for files and inputs, and for calls that end early."""

import contextlib
from collections.abc import Generator
from typing import Any, Self


class ModelFileError(ValueError):
    """A file is damaged, was not exported by keras_attn, or has an unsupported format."""


class BatchError(ModelFileError):
    """The model cannot be run on one batch: memory is short, or the file is damaged.

    Args:
        reason: string, the ONNX Runtime or LiteRT error, and what to do.
        index: int, input position of the failed sentence, counted from 0. Default: unknown.
    """

    def __init__(self, reason: str, index: int | None = None) -> None:
        where = "" if index is None else f"Sentence {index} (counted from 0): "
        super().__init__(f"{where}{reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, int | None]]:
        # By default, unpickling would pass the message to the constructor.
        return type(self), (self.reason, self.index)


class ProviderError(ValueError):
    """The requested execution provider cannot be used on this machine."""


class InputError(ValueError):
    """An input cannot be processed, for example a sentence or an image.

    Args:
        index: int, position of the input, counted from 0.
        reason: string, what is wrong with the input and what to do.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"Sentence {index} (counted from 0): {reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[int, str]]:  # see `BatchError`
        return type(self), (self.index, self.reason)


class DeadlineExceeded(TimeoutError):
    """A `Translator` or `Classifier` call did not finish within its `timeout`.

    Attributes:
        index: int, input position of the first unfinished sentence, counted from 0.
        translations: list, the finished results. After a method that returns a list, it contains
            one item for each sentence read: the `GenerationResult` or `Classification`, or `None`
            if unfinished. After a method that returns an iterator, it is empty, because the
            iterator has already yielded the results before `index`.
    """

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index
        self.translations: list[Any] = []


class Cancelled(RuntimeError):
    """A `Translator` or `Classifier` call was ended by its `cancel_token`.

    Attributes:
        index: int, input position of the first unfinished sentence, counted from 0.
        translations: list, the finished results, see `DeadlineExceeded`.
    """

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message)
        self.index = index
        self.translations: list[Any] = []


def in_one_line(error: BaseException) -> str:
    """Returns an error message in one line.

    The middle of a long message is left out, because ONNX Runtime may list all nodes in a graph.
    """
    text = " ".join(str(error).split())
    return text if len(text) <= 600 else f"{text[:200]} ... {text[-400:]}"


@contextlib.contextmanager
def run_failures(
    batch: int, source_length: int | None, engine: str = "ONNX Runtime"
) -> Generator[None, None, None]:
    """Context manager that converts engine and NumPy exceptions to `BatchError`.

    Args:
        batch: int, number of rows.
        source_length: int, number of tokens in the longest row, or `None` if the inputs are
            not token ids.
        engine: string, engine name. Default: "ONNX Runtime".
    """
    rows = f"{batch} rows"
    if source_length is not None:
        rows = f"{batch} sentences of up to {source_length} tokens"
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:  # the engines' exceptions share no base class
        raise BatchError(
            f"{engine} failed on {rows}: {in_one_line(error)}. "
            "Try a smaller batch or shorter inputs; if the error remains, the file is damaged."
        ) from error
