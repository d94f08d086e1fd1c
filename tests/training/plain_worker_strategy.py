"""Trains with `keras.Model.fit` and `MultiWorkerMirroredStrategy` and writes the errors as JSON.

python plain_worker_strategy.py DIRECTORY
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_attn._backend.worker_cluster import WorkerCluster


class ReducesBatches(tf.distribute.MultiWorkerMirroredStrategy):
    """Accepts batches in `reduce`, but not axis 0 for scalars."""

    def reduce(self, reduce_op, value, axis):
        if isinstance(value, tuple):
            return tf.nest.map_structure(lambda v: self.experimental_local_results(v)[0], value)
        return super().reduce(reduce_op, value, axis)


def error_of_fit(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    try:
        model.fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=4, verbose=0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main(directory):
    cluster = WorkerCluster.from_environment()
    cluster.wait_for_all(120)
    strategy = ReducesBatches()
    errors = {"batches are reduced": error_of_fit(strategy)}
    strategy.__class__ = tf.distribute.MultiWorkerMirroredStrategy  # one object in each process
    errors["plain"] = error_of_fit(strategy)
    (directory / f"{cluster.index}.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
