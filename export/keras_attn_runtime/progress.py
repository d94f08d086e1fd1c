import contextlib
import os
import time


class Progress:
    """Counts lines on a terminal, in one line that is overwritten; silent elsewhere.

    A stream that can no longer be written, such as a terminal that was closed, ends the count and
    not the work.

    Args:
        stream: text stream, usually stderr; `None`, as where it is closed, for no output.
        results: text stream where the lines go, or `None`. On a terminal they would be written
            into the count, and tell as much: then it is silent too.
        interval: float, least seconds between two updates. Default: 0.5.
    """

    def __init__(self, stream, results=None, interval=0.5):
        self.stream = stream
        self.interval = interval
        is_terminal = stream is not None and stream.isatty()
        self._visible = is_terminal and not (results is not None and results.isatty())
        self._lines = 0
        self._begin = self._shown = time.monotonic()

    def advance(self):
        """Counts one line."""
        self._lines += 1
        now = time.monotonic()
        if self._visible and now - self._shown >= self.interval:
            self._shown = now
            self._show(now)

    def message(self, text):
        """Prints a line above the count."""
        erase = "\r\x1b[K" if self._visible else ""
        self._print(f"{erase}{text}\n")

    def close(self):
        """Leaves the final count on the terminal."""
        if self._visible:
            self._show(time.monotonic())
            self._print("\n")

    def _show(self, now):
        rate = self._lines / max(now - self._begin, 1e-9)
        self._print(f"\r\x1b[K{self._lines} lines, {rate:.1f} lines/s")

    def _print(self, text):
        if self.stream is None:
            return
        try:
            print(text, end="", file=self.stream, flush=True)
        except OSError:
            self._visible = False
            # Python would try to write it once more at its end, and fail.
            with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self.stream.fileno())
