import signal


class Interruption:
    """Lets Ctrl-C (SIGINT) and SIGTERM end the command between two lines, never inside of one.

    As a context manager it handles the two signals. While a model is loaded and lines are read and
    translated, a signal raises KeyboardInterrupt, as soon as a running call of ONNX Runtime is
    done. What is translated already is written first: after `hold` a signal waits until the next
    line is asked for. A second signal ends the process at once, for a reader of the output that has
    stopped reading would make the wait endless.

    Attributes:
        number: int, the signal that came, or None.
    """

    def __init__(self):
        self.number = None
        self._held = False
        self._before = {}

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            # A shell lets its background jobs ignore Ctrl-C, and so do these.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_):
        if self.number is not None:
            return  # the process ends, and a further signal ends its wait for workers at once
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self):
        """Makes a signal wait until the next of `lines` is asked for."""
        self._held = True

    def lines(self, lines):
        """Yields the lines of an iterable until a signal comes, then raises KeyboardInterrupt."""
        lines = iter(lines)
        while True:
            self._held = False
            if self.number is not None:
                raise KeyboardInterrupt
            try:
                line = next(lines)
            except StopIteration:
                return
            yield line

    def _handle(self, number, frame):
        for handled in self._before:
            signal.signal(handled, signal.SIG_DFL)
        self.number = number
        if not self._held:
            raise KeyboardInterrupt
