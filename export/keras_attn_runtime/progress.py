import contextlib
import os
import time
from typing import TextIO


class Progress:
    """Counts lines on a terminal, in one line that is overwritten; silent elsewhere.

    When the stream can no longer be written, such as a terminal that was closed, the count ends and
    the work goes on.

    Args:
        stream: text stream, usually stderr; `None`, as where it is closed, for no output.
        results: text stream of the output lines, or `None`. If it is a terminal, there is no count,
            because the lines would be written into it.
        interval: float, least seconds between two updates. Default: 0.5.
    """

    def __init__(
        self, stream: TextIO | None, results: TextIO | None = None, interval: float = 0.5
    ) -> None:
        self.stream = stream
        self.interval = interval
        is_terminal = stream is not None and stream.isatty()
        self._visible = is_terminal and not (results is not None and results.isatty())
        self._lines = 0
        self._begin = self._shown = time.monotonic()

    def advance(self) -> None:
        """Counts one line."""
        self._lines += 1
        now = time.monotonic()
        if self._visible and now - self._shown >= self.interval:
            self._shown = now
            self._show(now)

    def message(self, text: str) -> None:
        """Prints a line above the count."""
        erase = "\r\x1b[K" if self._visible else ""
        self._print(f"{erase}{text}\n")

    def close(self) -> None:
        """Leaves the final count on the terminal."""
        if self._visible:
            self._show(time.monotonic())
            self._print("\n")

    def _show(self, now: float) -> None:
        rate = self._lines / max(now - self._begin, 1e-9)
        self._print(f"\r\x1b[K{self._lines} lines, {rate:.1f} lines/s")

    def _print(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            print(text, end="", file=self.stream, flush=True)
        except OSError:
            self._visible = False
            # Python would try to write it once more at its end, and fail.
            with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self.stream.fileno())
