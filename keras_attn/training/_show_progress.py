import math
import sys
import time
from collections.abc import Mapping
from typing import TextIO

import keras

from keras_attn._backend.compilation_time import compilation_seconds

_ERASE = "\r\x1b[K"
"""Moves to the start of the line of a terminal and erases the line."""
_SECONDS = {True: 0.2, False: 30.0}
"""Dict from whether the stream is a terminal to the seconds between two lines within an epoch."""


class ShowProgress(keras.callbacks.Callback):
    """Shows the progress of a training: loss, speed and time left within an epoch, then the logs.

    On a terminal, one line is replaced five times a second:

        epoch 3 of 14   120 of 300 steps   loss 3.214   8,412 tokens/s   1:23 left

    Speed and time left do not include the first step, which traces the model, and on JAX the
    compilations for further shapes of batches.

    In a file, such a line is written every 30 seconds. At the end of each epoch, a line lists all
    logs. Use the callback with `verbose=0`. In the list of callbacks, it must come after those that
    add logs, such as `BleuCallback`.

    Args:
        items_per_step: Positive float, mean number of tokens, images or other items in a batch.
            Defaults to `None`: the speed is shown in steps.
        item: String, plural name of the items. Defaults to `"tokens"`.
        stream: Text stream. Defaults to `None`: `sys.stdout`.

    Attributes:
        position: String, place in the training, such as `"in epoch 3, step 120"`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn.training import ShowProgress
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile(keras.optimizers.SGD(0.0), "mse")
    >>> _ = model.fit(
    ...     np.zeros((8, 2)), np.ones((8, 1)), epochs=2, verbose=0, callbacks=[ShowProgress()]
    ... )  # doctest: +ELLIPSIS
    epoch 1 of 2: loss 1, 0:0... in all
    epoch 2 of 2: loss 1, 0:0... in all
    """

    def __init__(
        self,
        items_per_step: float | None = None,
        item: str = "tokens",
        stream: TextIO | None = None,
    ) -> None:
        super().__init__()
        self.items_per_step = items_per_step
        self.item = item
        self.stream = stream
        self.position = "before the first step"

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        self._stream = sys.stdout if self.stream is None else self.stream
        self._is_terminal = self._stream.isatty()
        self._start = self._last = time.monotonic()
        self._compiled = compilation_seconds()
        self._first: tuple[float, float] | None = None
        self._steps_done = 0
        self._epoch = 0
        self._has_line = False

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._epoch = epoch
        self.position = f"in epoch {epoch + 1}"

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._steps_done += 1
        self.position = f"in epoch {self._epoch + 1}, step {batch + 1}"
        now = time.monotonic()
        compiled = compilation_seconds()
        if self._first is None:
            self._first = now, compiled
        params = self.params or {}
        epochs, steps = params.get("epochs"), params.get("steps")
        if batch + 1 == steps and self._has_line:
            # Other callbacks, such as BleuCallback, print at the end of an epoch.
            self._stream.write(_ERASE)
            self._has_line = False
            return
        if now - self._last < _SECONDS[self._is_terminal]:
            return
        self._last = now
        parts = [f"epoch {self._epoch + 1} of {epochs}", f"{batch + 1:,} of {steps or '?'} steps"]
        if logs and "loss" in logs:
            parts.append(f"loss {_number(logs['loss'])}")
        speed = self._speed(self._first, now, compiled)
        if self.items_per_step is None:
            parts.append(f"{speed:.3g} steps/s")
        else:
            parts.append(f"{speed * self.items_per_step:,.0f} {self.item}/s")
        if steps and epochs:
            left = ((epochs - self._epoch) * steps - batch - 1) / speed
            parts.append(f"{_duration(left)} left")
        self._write("   ".join(parts), is_final=not self._is_terminal)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        shown = [f"{name} {_number(value)}" for name, value in (logs or {}).items()]
        shown.append(f"{_duration(time.monotonic() - self._start)} in all")
        epochs = (self.params or {}).get("epochs")
        self._write(f"epoch {epoch + 1} of {epochs}: {', '.join(shown)}", True)

    def get_state(self) -> dict[str, str]:
        """Returns an empty state: the speed is that of this process."""
        return {}

    def set_state(self, state: dict[str, str]) -> None:
        """Does nothing."""

    def _speed(self, first: tuple[float, float], now: float, compiled: float) -> float:
        """Returns the steps in a second, without the first step and without compilations.

        Args:
            first: Time at the end of the first step, and seconds of compilations until then.
            now: Time of this step.
            compiled: Seconds of compilations until now.
        """
        steps, (start, before) = self._steps_done - 1, first
        if steps == 0:
            steps, start, before = 1, self._start, self._compiled
        return steps / max(now - start - (compiled - before), 1e-6)

    def _write(self, text: str, is_final: bool) -> None:
        erase = _ERASE if self._has_line else ""
        self._stream.write(f"{erase}{text}{chr(10) if is_final else ''}")
        self._stream.flush()
        self._has_line = not is_final


def _number(value: float) -> str:
    return f"{float(value):.4g}"


def _duration(seconds: float) -> str:
    """Returns a duration as minutes and seconds, or hours, minutes and seconds."""
    if not math.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
