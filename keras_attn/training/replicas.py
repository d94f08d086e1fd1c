"""What the replicas of a `tf.distribute` strategy must know of each other.

On one device, on other backends (where a step already sees the global batch) and outside
`strategy.run` there is one replica, and these functions change nothing.
"""

import keras


def num_replicas():
    """How many replicas run the code that calls this, each on its part of the batch."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(tensors):
    """The list of the sums of each tensor of a list over all replicas. Gradients do not flow."""
    if num_replicas() == 1:
        return tensors
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def pad_to_replicas(dataset, replicas, ignore_class=0):
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
