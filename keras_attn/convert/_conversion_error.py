import contextlib
from collections.abc import Iterator


class ConversionError(ValueError):
    """A checkpoint cannot be converted exactly. The message contains the reason and advice.

    Args:
        *messages: Strings, one for each problem in the checkpoint.

    Attributes:
        messages: Tuple of these strings.
    """

    def __init__(self, *messages: str) -> None:
        self.messages = messages
        text = messages[0]
        if len(messages) > 1:
            numbered = (f"({number}) {text}" for number, text in enumerate(messages, start=1))
            text = (
                "Expected a checkpoint that can be converted exactly. Received: "
                f"{len(messages)} problems. {' '.join(numbered)}"
            )
        super().__init__(text)


class Problems:
    """Collects errors from independent checks, so that one error reports all."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Context manager that keeps a `ConversionError` from its block for `raise_all`."""
        try:
            yield
        except ConversionError as error:
            self._messages += error.messages

    def raise_all(self) -> None:
        """Raises one `ConversionError` with all messages, if there are any."""
        if self._messages:
            raise ConversionError(*dict.fromkeys(self._messages))
