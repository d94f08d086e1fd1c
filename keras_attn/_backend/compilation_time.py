"""Seconds that JAX spent on compilations, which it repeats for each new shape of a batch."""

import functools
import time
from typing import Any

import keras

EVENTS = "/jax/core/compile/"
"""Prefix of the events that JAX records at the end of tracing, lowering and compiling."""


def compilation_seconds() -> float:
    """Returns the seconds of all compilations since the first call. It is 0 if JAX is not used.

    The first step of a training traces its program on every backend. JAX also compiles a program
    for each further shape, so that many of the first steps take much longer than later ones.
    """
    return _listener().seconds if keras.backend.backend() == "jax" else 0.0


class _Listener:
    """Sums the durations of events. A program that is traced inside of another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._spans: list[tuple[float, float]] = []

    def __call__(self, event: str, duration_secs: float, **kwargs: Any) -> None:
        if not event.startswith(EVENTS):
            return
        end = time.monotonic()
        start = end - duration_secs
        while self._spans and self._spans[-1][0] >= start:  # events inside of this one
            inner = self._spans.pop()
            self.seconds -= inner[1] - inner[0]
        self._spans.append((start, end))
        self.seconds += duration_secs


@functools.cache
def _listener() -> _Listener:
    import jax

    listener = _Listener()
    jax.monitoring.register_event_duration_secs_listener(listener)
    return listener
