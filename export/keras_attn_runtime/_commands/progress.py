import contextlib
import os
import time
from typing import TextIO


class Progress:
    """Shows the number of finished lines on a terminal, in a line that is overwritten.

    Nothing is shown if the stream is not a terminal. Stream errors, such as a closed terminal, end
    the display but raise no exception.

    Args:
        stream: text stream, usually `sys.stderr`, or `None` for no output.
        results: text stream for the output lines, or `None`. If it is a terminal, the number is not
            shown, because it would be mixed with the lines.
        interval: float, minimum number of seconds between two updates. Default: 0.5.
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
        """Prints a message on a separate line."""
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
            # At exit, Python would try to write the remaining text again, and fail.
            with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self.stream.fileno())
