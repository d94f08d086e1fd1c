"""Communication between replicas in a distribution strategy.

On TensorFlow, `strategy.run` runs the same step on each replica, with its part of the global batch.
On JAX and PyTorch, one step processes the global batch. On these backends, on one device, and
outside of `strategy.run`, `num_replicas` is 1 and `sum_over_replicas` returns its inputs unchanged.
"""

from typing import Any

import keras
from keras import ops


def num_replicas() -> int:
    """Returns the number of replicas that run the calling code on parts of the batch."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(tensors: list[Any]) -> list[Any]:
    """Sums each tensor in a list over all replicas. Do not compute gradients of the result."""
    if num_replicas() == 1:
        return tensors
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    devices = context.strategy.extended.worker_devices
    # Several replicas, but one device here: there are several workers with one device each. Then
    # the tensors need an explicit device.
    if len(devices) == 1:
        with tf.device(devices[0]):
            tensors = [tf.identity(tensor) for tensor in tensors]
    totals: list[Any] = list(tensors)
    # TensorFlow joins the tensors, so their dtypes must be equal. All workers must reduce the
    # dtypes in the same order, so the loop uses their order in the list, not that of a set.
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        places = [place for place, tensor in enumerate(tensors) if tensor.dtype == dtype]
        parts = [tensors[place] for place in places]
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, parts)
        for place, total in zip(places, sums, strict=True):
            totals[place] = total
    return totals


def global_mean(loss_sum: Any, count: Any) -> Any:
    """Computes one replica's loss so that the strategy returns the mean over the global batch.

    Args:
        loss_sum: Scalar tensor, sum of this replica's losses.
        count: Float scalar tensor, number of losses on this replica, or sum of their weights.

    Returns:
        Scalar tensor. Its value is the global mean divided by the number of replicas. Its gradient
        is the gradient of `loss_sum` divided by the global count. Value and gradient are 0 if there
        are no losses.
    """
    global_sum, global_count = sum_over_replicas([ops.stop_gradient(loss_sum), count])
    share = ops.divide_no_nan(loss_sum, global_count)
    mean = ops.divide_no_nan(global_sum, global_count)
    return share + ops.stop_gradient(mean / num_replicas() - share)


def num_data_replicas(model: keras.Model) -> int:
    """Returns the number of replicas among which `model.fit` divides a batch."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.num_replicas_in_sync
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.num_model_replicas


def rows_of_worker(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the rows of a global batch that this process passes to `model.fit` on JAX.

    Args:
        batch: Tuple of nested arrays. Their first axis is the batch axis, and its size is a
            multiple of the number of replicas.

    Returns:
        Tuple with the same structure. With one process, it contains all rows.
    """
    distribution: Any = keras.distribution.distribution()
    if distribution is None or distribution.num_processes == 1:
        return batch
    shards = min(distribution.num_processes, distribution.num_model_replicas)
    shard = distribution.data_shard_id

    def part(array):
        rows = len(array) // shards
        return array[shard * rows : (shard + 1) * rows]

    return keras.tree.map_structure(part, batch)
