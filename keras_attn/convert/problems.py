import contextlib
from collections.abc import Iterator

from keras_attn.convert.conversion_error import ConversionError


class Problems:
    """Collects the errors of independent checks, so that one error reports all of them."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Context manager that keeps a `ConversionError` of its block for `raise_all`."""
        try:
            yield
        except ConversionError as error:
            self._messages += error.messages

    def raise_all(self) -> None:
        """Raises one `ConversionError` with all messages, if there are any."""
        if self._messages:
            raise ConversionError(*dict.fromkeys(self._messages))
