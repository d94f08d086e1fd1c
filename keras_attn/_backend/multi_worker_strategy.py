"""`MultiWorkerMirroredStrategy` of TensorFlow, with what `keras.Model.fit` lacks under it."""

import functools
from typing import Any


@functools.cache
def multi_worker_strategy() -> Any:
    """Returns the strategy of this process, whose cluster is in `TF_CONFIG`.

    Raises:
        RuntimeError: If TensorFlow computed something before.
    """
    import tensorflow as tf

    class MultiWorkerStrategy(tf.distribute.MultiWorkerMirroredStrategy):
        """Accepts two reductions of `keras.Model.fit` that TensorFlow's strategy refuses.

        Keras builds a model from the mean of the first batches of all replicas, of which it only
        uses shapes and dtypes: a batch of this worker has the same. And it reduces scalars, such as
        the loss, over an axis that they do not have.
        """

        def reduce(self, reduce_op: Any, value: Any, axis: int | None) -> Any:
            if isinstance(value, (tuple, list, dict)):
                return tf.nest.map_structure(
                    lambda each: self.experimental_local_results(each)[0], value
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
            'Expected strategy("multi_worker") before anything that TensorFlow computes. Received: '
            f"{error}. Create the strategy at the beginning of the program."
        ) from error
