import numbers
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attn._backend.data_adapters import EpochBatches
from keras_attn._layer.argument_checks import check_label

if TYPE_CHECKING:
    import tensorflow as tf


class WindowBatches(EpochBatches):
    """Base class for batches of windows in a long sequence. A subclass defines `_batch`."""

    window: int
    batch_size: int

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Iterates over the batches in one epoch."""
        return map(self.batch, range(self.steps_per_epoch))

    def batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the batch for a training step.

        Args:
            step: Int >= 0, the step number since the beginning of the training.

        Returns:
            Tuple of inputs and labels, int32 `(batch_size, window)`.

        Raises:
            ValueError: If `step` is not an integer of at least 0.
        """
        check_step("step", step)
        return self._batch(step)

    @abstractmethod
    def _batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the batch for a valid step."""

    def stream(self, start_step: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Iterates over the batches for all steps from `start_step`, without end."""
        check_step("start_step", start_step)
        return map(self.batch, count(start_step))

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches from `start_step` as an infinite `tf.data.Dataset`.

        Args:
            start_step: Int >= 0, first step. Defaults to `0`.

        Returns:
            Dataset of pairs of int32 tensors of shape `(batch_size, window)`.
        """
        check_step("start_step", start_step)
        import tensorflow as tf

        spec = tf.TensorSpec((self.batch_size, self.window), "int32")
        dataset = tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=(spec, spec)
        )
        return dataset.prefetch(2)


def checked_ids(ids: npt.ArrayLike, pad_token_id: int | None) -> np.ndarray:
    """Returns token ids as an int32 array. Warns if they contain the padding id.

    Args:
        ids: One-dimensional int array or list.
        pad_token_id: Int, the label that the loss ignores; `None` if it ignores no label.

    Raises:
        ValueError: If an argument has the wrong shape or dtype, or contains a negative id.
    """
    if pad_token_id is not None:
        check_label("pad_token_id", pad_token_id)
    array = np.asarray(ids)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "Expected ids to be a one-dimensional array of integers. Received: ids of shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    if (array < 0).any():
        position = int((array < 0).argmax())
        raise ValueError(
            f"Expected ids of at least 0. Received: ids[{position}]={array[position]}. Remove "
            "the negative ids."
        )
    if pad_token_id is not None and (array == pad_token_id).any():
        position = int((array == pad_token_id).argmax())
        warnings.warn(
            f"Expected ids without the padding id {pad_token_id}, which losses ignore by "
            f"default. Received: ids[{position}]={array[position]}. Remove the padding, or "
            "change pad_token_id if the loss ignores a different label or none.",
            stacklevel=3,
        )
    return array.astype("int32")


def check_step(name: str, value: object) -> None:
    """Raises a `ValueError` unless a value is an integer of at least 0."""
    if not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"Expected {name} to be an integer >= 0. Received: {name}={value!r}.")
