"""Batches that Keras reads in `model.fit` without further arguments."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import keras

from keras_attn._backend.private_names import data_adapter_class
from keras_attn._backend.random_state import draw_loader_seeds

if TYPE_CHECKING:
    import tensorflow as tf

_DataAdapter: Any = data_adapter_class()


class StreamAdapter(_DataAdapter):
    """Data for `model.fit` on JAX and PyTorch from a function that returns a new iterator.

    Unlike a generator, the iterator may yield single arrays and dicts, which a custom `train_step`
    gets as they are.

    Args:
        stream: Function that returns an infinite iterator over batches.
        loader_seeds: Int >= 0, number of seeds that Keras' own loader of these data draws for an
            epoch on PyTorch. Defaults to `0`.
    """

    num_batches = batch_size = None

    def __init__(self, stream: Callable[[], Iterator[Any]], loader_seeds: int = 0) -> None:
        self._stream = stream
        self._loader_seeds = loader_seeds
        self._is_first = True  # before the call of on_epoch_end that precedes the first epoch

    def get_jax_iterator(self) -> Iterator[Any]:
        return self._stream()

    def get_torch_dataloader(self) -> Iterator[Any]:
        return map(_as_tensors, self._stream())

    def on_epoch_begin(self) -> None:
        draw_loader_seeds(self._loader_seeds)

    def on_epoch_end(self) -> None:
        if self._loader_seeds and not self._is_first:
            draw_loader_seeds(1)  # Keras creates the next iterator, even if there is no next epoch
        self._is_first = False


class EpochBatches(_DataAdapter):
    """Base class for batches with `steps_per_epoch`, `stream` and `dataset`, for `model.fit`.

    In each training, the first epoch reads the batches from step 0, and the next epoch continues.
    Each evaluation reads the first epoch's batches.
    """

    steps_per_epoch: int
    batch_size: Any = None
    _epoch = 0
    _next_epoch: int | None = None
    _has_begun = _has_started = False

    def stream(self, start_step: int = 0) -> Iterator[Any]:
        """Yields the batches of all steps from `start_step`, without end."""
        raise NotImplementedError

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches of `stream` as an infinite `tf.data.Dataset`."""
        raise NotImplementedError

    @property
    def num_batches(self) -> int:
        """Number of batches per epoch, for `model.fit`."""
        return self.steps_per_epoch

    def get_jax_iterator(self) -> Iterator[Any]:
        """Returns the next epoch's batches, for `model.fit`."""
        epoch, steps = self._epoch, self.steps_per_epoch
        self._has_started = True
        for index, batch in enumerate(islice(self.stream(epoch * steps), steps)):
            if index == steps - 1:
                self._next_epoch = epoch + 1
            yield batch

    def get_torch_dataloader(self) -> Iterator[Any]:
        """Returns the next epoch's batches as tensors, for `model.fit`."""
        return map(_as_tensors, self.get_jax_iterator())

    def get_tf_dataset(self) -> "tf.data.Dataset":
        """Returns a dataset that reads the next epoch's batches, for `model.fit`."""
        import tensorflow as tf

        steps_dataset = self.dataset(0)
        dataset = tf.data.Dataset.from_generator(
            self.get_jax_iterator, output_signature=steps_dataset.element_spec
        )
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(self.steps_per_epoch))
        return dataset.prefetch(64).with_options(steps_dataset.options())

    def on_epoch_begin(self) -> None:
        """Is called by `model.fit` at the beginning of an epoch."""
        self._has_begun = True

    def on_epoch_end(self) -> None:
        """Is called by `model.fit` at the end of an epoch and before the first epoch."""
        if self._next_epoch is not None:
            self._epoch = self._next_epoch
        elif self._has_started or not self._has_begun:
            self._epoch = 0  # before the first epoch, for which Keras may have read a batch
        self._next_epoch = None
        self._has_begun = self._has_started = False


def _as_tensors(batch):
    return keras.tree.map_structure(
        lambda value: None if value is None else keras.ops.convert_to_tensor(value), batch
    )
