"""Types of the data that `fit` reads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import keras

if TYPE_CHECKING:
    import tensorflow as tf

OnMismatch: TypeAlias = Literal["error", "warn"]
"""Whether a difference to the saved state raises an error or a warning."""

Shuffle: TypeAlias = bool | Literal["batch"]
"""Argument `shuffle` of `model.fit`."""


class StepBatches(Protocol):
    """Batches that depend only on the number of the step, see the argument `x` of `fit`.

    `fit` calls `dataset` on TensorFlow and `stream` on other backends.
    """

    @property
    def steps_per_epoch(self) -> int: ...

    def stream(self, start_step: int = 0) -> Iterator[object]: ...

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset": ...


def step_method() -> str:
    """Returns the name of the method of `StepBatches` that `fit` calls on this backend."""
    return "dataset" if keras.backend.backend() == "tensorflow" else "stream"
