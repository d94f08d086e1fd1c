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


def pad_to_replicas(dataset, replicas):
    """Adds rows to each batch until its rows can be divided by the number of replicas.

    Their labels are zeros, which is padding: losses and metrics that ignore padding do not change.
    Their inputs are those of the last row, for the fused kernels that a recurrent layer has on a
    GPU refuse rows of nothing but padding. Every replica then gets rows to compute, and Keras can
    start: `fit` under a strategy adds up the first batch of all replicas, and fails where their
    numbers of rows differ.

    Args:
        dataset: `tf.data.Dataset` of tuples of inputs and of what belongs to the labels, each
            nested tensors, batch axis first.
        replicas: int >= 1.

    Returns:
        `tf.data.Dataset` of the same structure.
    """
    if replicas == 1:
        return dataset
    import tensorflow as tf

    def fill_up(tensor, row):
        missing = -tf.shape(tensor)[0] % replicas
        return tf.concat([tensor, tf.repeat(row, missing, axis=0)], axis=0)  # (B + missing, ...)

    def fill_up_batch(inputs, *labels):
        inputs = tf.nest.map_structure(lambda t: fill_up(t, t[-1:]), inputs)
        return inputs, *tf.nest.map_structure(lambda t: fill_up(t, tf.zeros_like(t[-1:])), labels)

    return dataset.map(fill_up_batch)
