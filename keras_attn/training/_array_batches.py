"""Batches of array rows, in an order that depends on a seed and the epoch number."""

import math
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorDict
from keras_attn.training._nested_arrays import checksum_of_batch, map_arrays, num_rows
from keras_attn.training._step_batches import Shuffle

if TYPE_CHECKING:
    import tensorflow as tf

_MOST_BYTES = 2**28
"""Maximum number of bytes that the checksum of an array reads."""


class ArrayBatches:
    """Divides array rows into batches like `model.fit`.

    The order in epoch n only depends on the seed and n, so a training can resume at any step. The
    last batch in an epoch contains the remaining rows.

    Args:
        data: Tuple of inputs, labels and sample weights: nested NumPy arrays with equal numbers of
            rows, see `as_arrays`, or `None`.
        batch_size: Positive int, or `None`: 32, or the number of rows divided by `steps_per_epoch`.
        shuffle: Bool, or `"batch"`, which shuffles the rows within each batch.
        class_weight: Dict from classes to weights, or `None`. Other classes have the weight 1.
        steps_per_epoch: Positive int, a divisor of the number of batches, or `None`: all batches.
        seed: Int >= 0.
    """

    def __init__(
        self,
        data: tuple[object, object, object],
        batch_size: int | None = None,
        shuffle: Shuffle = False,
        class_weight: dict[int, float] | None = None,
        steps_per_epoch: int | None = None,
        seed: int = 0,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch)):
            if value is not None:
                check_positive_integer(name, value)
        x, y, sample_weight = data
        sample_weight = _weights_of_outputs(y, sample_weight, class_weight)
        self._data = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        self.num_rows = num_rows((x, y, sample_weight))
        if batch_size is None:
            batch_size = math.ceil(self.num_rows / steps_per_epoch) if steps_per_epoch else 32
        self.batch_size = batch_size
        self._num_batches = math.ceil(self.num_rows / batch_size)
        self.steps_per_epoch = steps_per_epoch or self._num_batches
        if self._num_batches % self.steps_per_epoch:
            raise ValueError(
                f"Expected steps_per_epoch to divide the number of batches, {self._num_batches}, "
                f"because other epochs have different lengths. Received: steps_per_epoch="
                f"{steps_per_epoch}, batch_size={batch_size}, {self.num_rows} rows. Pass "
                "steps_per_epoch=None for all batches."
            )
        self.shuffle = shuffle
        self.seed = seed

    @property
    def loader_seeds(self) -> int:
        """Number of seeds that Keras draws to read an epoch on PyTorch."""
        return 2 if self.shuffle and self.shuffle != "batch" else 1

    def get_state(self) -> TensorDict:
        """Returns the seed, for `TrainingCheckpoint`."""
        return {"seed": self.seed}

    def set_state(self, state: TensorDict) -> None:
        """Restores the seed."""
        self.seed = state["seed"]

    def fingerprint(self) -> dict[str, object]:
        """Describes the arrays and their division by a JSON value without the seed."""

        def sample(array: np.ndarray) -> np.ndarray:
            return array[:: max(1, array.nbytes // _MOST_BYTES)]

        return {
            "steps_per_epoch": self.steps_per_epoch,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "num_rows": self.num_rows,
            "arrays": checksum_of_batch(map_arrays(self._data, sample)),
        }

    def stream(self, start_step: int = 0) -> Iterator[object]:
        """Yields the batches for all steps from `start_step`, without end.

        A batch has the structure of the data in `model.fit`: `x`, `(x, y)` or `(x, y,
        sample_weight)`.
        """
        first, index = divmod(start_step, self._num_batches)
        for epoch in count(first):
            order = self._order(epoch)
            for start in range(index * self.batch_size, self.num_rows, self.batch_size):
                stop = min(start + self.batch_size, self.num_rows)
                rows = slice(start, stop) if order is None else order[start:stop]
                yield map_arrays(self._data, lambda array, rows=rows: array[rows])
            index = 0

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches of `stream` as an infinite `tf.data.Dataset`."""
        import tensorflow as tf

        first, index = divmod(start_step, self._num_batches)
        size = self.batch_size

        def orders() -> Iterator[np.ndarray]:
            for epoch in count(first):
                order = self._order(epoch)
                order = np.arange(self.num_rows) if order is None else order
                yield order[index * size :] if epoch == first else order

        def rows_of_batches(order: "tf.Tensor") -> "tf.data.Dataset":
            end = tf.size(order) // size * size
            whole = tf.data.Dataset.from_tensor_slices(tf.reshape(order[:end], (-1, size)))
            if self.num_rows % size == 0:
                return whole
            return whole.concatenate(tf.data.Dataset.from_tensors(order[end:]))

        data = map_arrays(keras.tree.lists_to_tuples(self._data), tf.convert_to_tensor)
        # Speed: Python runs once per epoch. TensorFlow selects the rows.
        spec = tf.TensorSpec((None,), "int64")
        dataset = tf.data.Dataset.from_generator(orders, output_signature=spec).prefetch(1)
        dataset = dataset.flat_map(rows_of_batches)
        dataset = dataset.map(
            lambda rows: map_arrays(data, lambda tensor: tf.gather(tensor, rows)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return dataset.prefetch(tf.data.AUTOTUNE)

    def _order(self, epoch: int) -> np.ndarray | None:
        """Returns the row order in an epoch, int64 `(num_rows,)`, or `None`: unchanged."""
        if not self.shuffle:
            return None
        generator = np.random.default_rng((self.seed, epoch))
        if self.shuffle != "batch":
            return generator.permutation(self.num_rows)
        order = np.arange(self.num_rows)
        for start in range(0, self.num_rows, self.batch_size):
            generator.shuffle(order[start : start + self.batch_size])  # a view
        return order


def class_weights(labels: np.ndarray, class_weight: dict[int, float]) -> np.ndarray:
    """Returns the sample weights `(rows,)` for labels: classes or one-hot vectors.

    Classes that are missing in `class_weight` have the weight 1.
    """
    if labels.ndim > 2:
        raise ValueError(
            "Expected labels of shape (rows,) or (rows, classes) with class_weight. Received: "
            f"labels of shape {labels.shape}. Pass sample_weight."
        )
    if labels.ndim > 1:
        last = labels.shape[-1]
        labels = labels.argmax(axis=-1) if last != 1 else labels.squeeze(axis=-1)
    classes, indices = np.unique(np.round(labels).astype("int32"), return_inverse=True)
    weights = [class_weight.get(int(label), 1.0) for label in classes]
    return np.asarray(weights, keras.config.floatx())[indices.reshape(labels.shape)]


def _weights_of_outputs(y: Any, sample_weight: Any, class_weight: dict[int, float] | None) -> Any:
    """Returns sample weights with the structure of the labels."""
    if class_weight is not None:
        if sample_weight is not None:
            raise ValueError(
                f"Expected sample_weight=None with class_weight={class_weight}. Received: "
                f"sample_weight of type {type(sample_weight).__name__}. Multiply sample_weight by "
                "the weights of the classes."
            )
        if y is None or keras.tree.is_nested(y):
            raise ValueError(
                "Expected the labels of one output with class_weight. Received: y of type "
                f"{type(y).__name__}. Pass sample_weight."
            )
        return class_weights(y, class_weight)
    if sample_weight is None or not keras.tree.is_nested(y):
        return sample_weight
    if keras.tree.is_nested(sample_weight):
        try:
            keras.tree.assert_same_structure(y, sample_weight)
        except ValueError as error:
            raise ValueError(
                "Expected sample_weight to have the structure of y, one array for each output. "
                f"Received: {error}"
            ) from error
        return sample_weight
    if sample_weight.ndim > 2 or sample_weight.ndim == 2 and sample_weight.shape[1] != 1:
        raise ValueError(
            "Expected sample_weight of shape (rows,) for several outputs. Received: shape "
            f"{sample_weight.shape}. Pass one array for each output."
        )
    return keras.tree.map_structure(lambda _: sample_weight, y)
