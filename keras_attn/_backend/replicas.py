"""What the replicas of a `tf.distribute` strategy must know of each other.

On one device, on other backends (where a step already sees the global batch) and outside
`strategy.run` there is one replica, and these functions change nothing.
"""

from typing import Any

import keras
import numpy as np


def num_replicas() -> int:
    """How many replicas run the code that calls this, each on its part of the batch."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(tensors: list[Any]) -> list[Any]:
    """The list of the sums of each tensor of a list over all replicas. Gradients do not flow."""
    if num_replicas() == 1:
        return tensors
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def num_data_replicas(model: keras.Model) -> int:
    """The number of devices among which `model.fit` divides the rows of a batch."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.num_replicas_in_sync
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.num_model_replicas


def pad_batch_to_replicas(
    batch: tuple[Any, ...], replicas: int, ignore_class: int = 0
) -> tuple[Any, ...]:
    """What `pad_to_replicas` does to each batch, for one batch of NumPy arrays.

    Args:
        batch: tuple of inputs and of what belongs to the labels, each nested arrays, batch axis
            first.
        replicas, ignore_class: see `pad_to_replicas`.

    Returns:
        Tuple of the same structure.
    """

    def fill_up(array, row):
        missing = -len(array) % replicas
        return np.concatenate([array, np.repeat(row, missing, axis=0)])  # (B + missing, ...)

    def last_row(array):
        array = np.asarray(array)
        row = array[-1:].copy()
        if np.issubdtype(row.dtype, np.integer) and row.ndim == 2:
            row[:, 1:] = 0
        return fill_up(array, row)

    def padding(array):
        array = np.asarray(array)
        return fill_up(array, np.full_like(array[-1:], ignore_class))

    def zeros(array):
        array = np.asarray(array)
        return fill_up(array, np.zeros_like(array[-1:]))

    return tuple(
        keras.tree.map_structure(fill, part)
        for fill, part in zip((last_row, padding, zeros), batch, strict=False)
    )


def pad_to_replicas(dataset: Any, replicas: int, ignore_class: int = 0) -> Any:
    """Adds rows to each batch until its rows can be divided by the number of replicas.

    Their labels are `ignore_class`, so that losses and metrics that ignore it do not change, and
    their sample weights 0. Their inputs are those of the last row, of ids the first one alone, for
    the fused kernels that a recurrent layer has on a GPU refuse rows of nothing but padding. Every
    replica then gets rows to compute, and Keras can start: `fit` under a strategy adds up the first
    batch of all replicas, and fails where their numbers of rows differ.

    Args:
        dataset: `tf.data.Dataset` of tuples of inputs and of what belongs to the labels, each
            nested tensors, batch axis first.
        replicas: int >= 1.
        ignore_class: int, the label of padding. Default 0.

    Returns:
        `tf.data.Dataset` of the same structure.
    """
    # The same as `pad_batch_to_replicas`, in operations of the graph of the dataset.
    if replicas == 1:
        return dataset
    import tensorflow as tf

    def fill_up(tensor, row):
        missing = -tf.shape(tensor)[0] % replicas
        return tf.concat([tensor, tf.repeat(row, missing, axis=0)], axis=0)  # (B + missing, ...)

    def zeros(tensor):
        return fill_up(tensor, tf.zeros_like(tensor[-1:]))

    def padding(labels):
        row = tf.zeros_like(labels[-1:])
        return fill_up(labels, row + tf.cast(ignore_class, row.dtype))

    def last_row(tensor):
        row = tensor[-1:]
        if row.dtype.is_integer and row.shape.rank == 2:
            row = tf.concat([row[:, :1], tf.zeros_like(row[:, 1:])], axis=1)
        return fill_up(tensor, row)

    def fill_up_batch(inputs, *labels_and_weights):
        parts = inputs, *labels_and_weights
        return tuple(
            tf.nest.map_structure(fill, part)
            for fill, part in zip((last_row, padding, zeros), parts, strict=False)
        )

    return dataset.map(fill_up_batch)
