"""Extends TensorFlow's `MultiWorkerMirroredStrategy` for `keras.Model.fit`."""

import functools
from typing import Any


@functools.cache
def multi_worker_strategy() -> Any:
    """Returns the strategy of this process for the cluster in `TF_CONFIG`.

    Raises:
        RuntimeError: If TensorFlow computed something before this call.
    """
    import tensorflow as tf

    class MultiWorkerStrategy(tf.distribute.MultiWorkerMirroredStrategy):
        """Supports two reductions in `keras.Model.fit` that TensorFlow's strategy rejects.

        First, Keras averages the first batches of all replicas to build a model. Keras only needs
        the shapes and dtypes of the result, so `reduce` returns a batch of this worker instead.
        Second, Keras reduces scalars, such as the loss, with `axis=0`, although scalars have no
        axis. `reduce` then uses `axis=None`.
        """

        def reduce(self, reduce_op: Any, value: Any, axis: int | None) -> Any:
            if isinstance(value, (tuple, list, dict)):
                return tf.nest.map_structure(
                    lambda values: self.experimental_local_results(values)[0], value
                )
            if axis == 0 and self.experimental_local_results(value)[0].shape.rank == 0:
                axis = None
            return super().reduce(reduce_op, value, axis)

    try:
        return MultiWorkerStrategy()
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise RuntimeError(
            'Expected a call of make_strategy("multi_worker") before the first computation of '
            f"TensorFlow. Received: {error}. Create the strategy at the beginning of the program."
        ) from error
