"""Communication of workers in distributed training. A worker is a process with its own devices.

With one worker, these functions have no effect.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attn._backend.replicas import sum_over_replicas


def worker_index(model: keras.Model | None) -> int:
    """Returns this worker's number. The chief worker is number 0."""
    if model is None or num_workers(model) == 1:
        return 0
    if keras.backend.backend() == "tensorflow":
        resolver = model.distribute_strategy.cluster_resolver
        chiefs = resolver.cluster_spec().as_dict().get("chief", ())
        return int(resolver.task_id) + (len(chiefs) if resolver.task_type == "worker" else 0)
    import jax

    return jax.process_index()


def num_workers(model: keras.Model | None) -> int:
    """Returns the number of workers that train a model, or 1 if `model` is `None`."""
    if model is None:  # the model of a callback before the training
        return 1
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        strategy = model.distribute_strategy
        if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return 1
        return strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)
    distribution: Any = keras.distribution.distribution()
    return 1 if distribution is None else distribution.num_processes


def is_chief(model: keras.Model | None) -> bool:
    """Returns whether this process is the chief worker, which writes files."""
    return worker_index(model) == 0


def gather_from_workers(model: keras.Model, number: int) -> list[int]:
    """Returns the `number` of each worker, as a list. Every worker must call this function."""
    workers = num_workers(model)
    if workers == 1:
        return [number]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        strategy = model.distribute_strategy
        part = np.zeros(workers, "int32")
        part[worker_index(model)] = number
        add_up = tf.function(lambda: strategy.run(sum_over_replicas, ([tf.constant(part)],)))
        (total,) = add_up()  # each replica of a worker adds the same values
        total = strategy.experimental_local_results(total)[0].numpy()
        return [int(count) for count in total // len(strategy.extended.worker_devices)]
    from jax.experimental import multihost_utils

    gathered = multihost_utils.process_allgather(np.array(number, "int32"))
    return [int(number) for number in gathered]


def wait_for_workers(model: keras.Model) -> None:
    """Waits until all workers have called this function."""
    gather_from_workers(model, 0)


@functools.cache
def _lost_worker_errors():
    """Returns the exception types that the backend raises if another worker has failed."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        errors = tf.errors
        return errors.UnavailableError, errors.AbortedError, errors.InternalError
    import jax

    return (jax.errors.JaxRuntimeError,)


_SIGNS_OF_A_LOST_WORKER = ("task", "Gloo", "gloo", "Connection", "connect", "peer", "Socket")


@contextlib.contextmanager
def explain_lost_workers(model: keras.Model) -> Iterator[None]:
    """Raises a clear error if another worker fails while the block runs.

    If a worker fails, the backend raises errors about the network connection in all other workers.
    This context manager replaces these errors.

    Raises:
        RuntimeError: If another worker ended or failed.
    """
    if num_workers(model) == 1:
        yield
        return
    try:
        yield
    except _lost_worker_errors() as error:
        if not any(sign in str(error) for sign in _SIGNS_OF_A_LOST_WORKER):
            raise
        index = worker_index(model)
        raise RuntimeError(
            f"Expected all {num_workers(model)} workers to run until the end of the training. "
            f"Received: worker {index} cannot reach the other workers, because one of them ended "
            "or failed. Read the output of that worker, then start all workers again. "
            "keras_attn.training.fit resumes from the saved state in its directory."
        ) from error
