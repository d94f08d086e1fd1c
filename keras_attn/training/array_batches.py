"""Batches of rows of arrays, in an order that depends on a seed and the number of the epoch."""

import math
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.training.training_fingerprint import checksum_of_batch

if TYPE_CHECKING:
    import tensorflow as tf

_tree: Any = keras.tree  # The annotations in Keras are incomplete.
_MOST_BYTES = 2**28
"""Number of bytes of an array that its checksum reads at most."""


class ArrayBatches:
    """Divides the rows of arrays into batches like `model.fit`.

    The order of epoch n only depends on the seed and n, so a training can resume at any step. The
    last batch of an epoch contains the remaining rows.

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
        data: tuple[Any, Any, Any],
        batch_size: int | None = None,
        shuffle: bool | str = False,
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

    def get_state(self) -> dict[str, Any]:
        """Returns the seed, for `TrainingCheckpoint`."""
        return {"seed": self.seed}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the seed."""
        self.seed = state["seed"]

    def fingerprint(self) -> dict[str, Any]:
        """Describes the arrays and their division by a JSON value without the seed."""

        sample = _rows(self._data, lambda array: array[:: max(1, array.nbytes // _MOST_BYTES)])
        return {
            "steps_per_epoch": self.steps_per_epoch,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "num_rows": self.num_rows,
            "arrays": checksum_of_batch(sample),
        }

    def stream(self, start_step: int = 0) -> Iterator[Any]:
        """Yields the batches of all steps from `start_step`, without end.

        A batch has the structure of the data in `model.fit`: `x`, `(x, y)` or `(x, y,
        sample_weight)`.
        """
        first, index = divmod(start_step, self._num_batches)
        for epoch in count(first):
            order = self._order(epoch)
            for start in range(index * self.batch_size, self.num_rows, self.batch_size):
                stop = min(start + self.batch_size, self.num_rows)
                rows = slice(start, stop) if order is None else order[start:stop]
                yield _rows(self._data, lambda array, rows=rows: array[rows])
            index = 0

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches of `stream` as an infinite `tf.data.Dataset`."""
        import tensorflow as tf

        first, index = divmod(start_step, self._num_batches)
        size = self.batch_size

        def orders():
            for epoch in count(first):
                order = self._order(epoch)
                order = np.arange(self.num_rows) if order is None else order
                yield order[index * size :] if epoch == first else order

        def rows_of_batches(order):
            end = tf.size(order) // size * size
            whole = tf.data.Dataset.from_tensor_slices(tf.reshape(order[:end], (-1, size)))
            if self.num_rows % size == 0:
                return whole
            return whole.concatenate(tf.data.Dataset.from_tensors(order[end:]))

        data = _rows(_tree.lists_to_tuples(self._data), tf.convert_to_tensor)
        # Speed: Python runs once per epoch. TensorFlow selects the rows.
        spec = tf.TensorSpec((None,), "int64")
        dataset = tf.data.Dataset.from_generator(orders, output_signature=spec).prefetch(1)
        dataset = dataset.flat_map(rows_of_batches)
        dataset = dataset.map(
            lambda rows: _rows(data, lambda tensor: tf.gather(tensor, rows)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return dataset.prefetch(tf.data.AUTOTUNE)

    def _order(self, epoch):
        """Returns the order of the rows in an epoch, int64 `(num_rows,)`, or `None`: unchanged."""
        if not self.shuffle:
            return None
        generator = np.random.default_rng((self.seed, epoch))
        if self.shuffle != "batch":
            return generator.permutation(self.num_rows)
        order = np.arange(self.num_rows)
        for start in range(0, self.num_rows, self.batch_size):
            generator.shuffle(order[start : start + self.batch_size])  # a view
        return order


def is_dense(data: Any) -> bool:
    """Returns whether data consist of arrays, tensors or pandas objects, none of them sparse."""
    return all(each is None or hasattr(each, "__array__") for each in keras.tree.flatten(data))


def as_arrays(data: Any) -> Any:
    """Converts nested tensors and pandas objects to NumPy arrays, with floats in `floatx`.

    A series becomes a column `(rows, 1)`, as in `model.fit`.
    """

    def convert(value):
        is_series = hasattr(value, "iloc") and value.ndim == 1
        array = keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value
        array = np.asarray(array)
        if not array.ndim:
            raise ValueError(
                f"Expected arrays with an axis of rows. Received: {value!r}, of shape (). Pass one "
                "row for each example."
            )
        if array.dtype != object and keras.backend.is_float_dtype(array.dtype):
            array = array.astype(keras.config.floatx(), copy=False)
        return array[:, None] if is_series else array

    return _rows(data, convert)


def num_rows(data: Any) -> int:
    """Returns the number of rows of nested arrays.

    Raises:
        ValueError: If there are no arrays, or their numbers of rows differ.
    """
    parts = zip(("x", "y", "sample_weight"), data, strict=True)
    numbers = {
        name: [len(each) for each in keras.tree.flatten(part) if each is not None]
        for name, part in parts
    }
    numbers = {name: each for name, each in numbers.items() if each}
    if len({number for each in numbers.values() for number in each}) != 1:
        raise ValueError(
            f"Expected arrays with equal numbers of rows. Received: {numbers} rows. Pass one row "
            "of each array for each example."
        )
    return next(iter(numbers.values()))[0]


def split_rows(data: Any, validation_split: float) -> tuple[Any, Any]:
    """Divides the rows of nested arrays as the argument `validation_split` of `model.fit`.

    Returns:
        Tuple of the first rows, for training, and the last rows, for validation.

    Raises:
        ValueError: If one of the parts is empty.
    """
    rows = num_rows(data)
    end = math.floor(rows * (1.0 - validation_split))
    if not 0 < end < rows:
        raise ValueError(
            "Expected validation_split to leave rows for training and validation. Received: "
            f"validation_split={validation_split}, {rows} rows. Use a different share."
        )
    return _rows(data, lambda array: array[:end]), _rows(data, lambda array: array[end:])


def _rows(data, function):
    """Applies a function to all arrays of a nested structure, without its `None`s."""
    return keras.tree.map_structure(lambda array: None if array is None else function(array), data)


def class_weights(labels: Any, class_weight: dict[int, float]) -> np.ndarray:
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
    weights = [class_weight.get(int(each), 1.0) for each in classes]
    return np.asarray(weights, keras.config.floatx())[indices.reshape(labels.shape)]


def _weights_of_outputs(y, sample_weight, class_weight):
    """Returns sample weights with the structure of the labels."""
    if class_weight is not None:
        if sample_weight is not None:
            raise ValueError(
                "Expected class_weight or sample_weight, not both. Received: both. Multiply "
                "sample_weight by the weights of the classes."
            )
        if y is None or _tree.is_nested(y):
            raise ValueError(
                "Expected the labels of one output with class_weight. Received: y of type "
                f"{type(y).__name__}. Pass sample_weight."
            )
        return class_weights(y, class_weight)
    if sample_weight is None or not _tree.is_nested(y):
        return sample_weight
    if _tree.is_nested(sample_weight):
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
