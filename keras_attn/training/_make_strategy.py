import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol

import keras

from keras_attn._backend.multi_worker_strategy import multi_worker_strategy
from keras_attn._backend.worker_cluster import WorkerCluster

if TYPE_CHECKING:
    import tensorflow as tf

NAMES = ("auto", "none", "mirrored", "multi_worker")
DEFAULT_JOIN_TIMEOUT = 300


class Strategy(Protocol):
    """A `tf.distribute.Strategy`, or an object with the same two attributes."""

    @property
    def num_replicas_in_sync(self) -> int: ...

    def scope(self) -> AbstractContextManager: ...


@dataclasses.dataclass(frozen=True)
class EmptyScope:
    """Strategy without a scope, for one device, or for JAX with a `keras.distribution`."""

    num_replicas_in_sync: int = 1

    def scope(self) -> AbstractContextManager:
        return contextlib.nullcontext()


def make_strategy(
    name: Literal["auto", "none", "mirrored", "multi_worker"] = "auto",
    devices: Sequence[str] | None = None,
    *,
    join_timeout: float = DEFAULT_JOIN_TIMEOUT,
) -> Strategy:
    """Returns a strategy for training. Build and compile the model in its scope.

    With `"multi_worker"`, every process (worker) runs the same program and must create the strategy
    before it computes anything. `keras-attn launch` starts the processes on one machine and sets
    the environment variables that name the workers. If you start the processes yourself, set
    `TF_CONFIG` on TensorFlow, or `KERAS_DISTRIBUTION_JOB_ADDRESSES`,
    `KERAS_DISTRIBUTION_NUM_PROCESSES` and `KERAS_DISTRIBUTION_PROCESS_ID` on JAX.

    Args:
        name: String. `"none"`: the default device. `"mirrored"`: `tf.distribute.MirroredStrategy`;
            each device stores all weights and computes a part of each batch. `"multi_worker"`: like
            `"mirrored"`, with the devices of several processes on one or more machines. It uses
            `tf.distribute.MultiWorkerMirroredStrategy` on TensorFlow and
            `keras.distribution.DataParallel` on JAX. `"auto"`: `"multi_worker"` if the environment
            variables name several workers, otherwise `"mirrored"` if TensorFlow finds several GPUs,
            otherwise `"none"`. Defaults to `"auto"`.
        devices: List of strings such as `["GPU:0", "GPU:1"]`, for `"mirrored"` only. Defaults to
            `None`: all GPUs.
        join_timeout: Positive float, number of seconds that `"multi_worker"` waits for all workers
            to start. Defaults to `300`.

    Returns:
        An object with `scope()` and `num_replicas_in_sync`. Calls with the same devices return the
        same `MirroredStrategy`, because TensorFlow supports only one such object per process.

    Raises:
        ValueError: If `name` or a device is unknown; if a device is repeated; if `devices` is given
            without `"mirrored"`; if `"mirrored"` is used without GPUs, or on a backend other than
            TensorFlow; or if `"multi_worker"` is used on PyTorch, or without the environment
            variables that name the workers.
        TimeoutError: If a worker did not start within `join_timeout` seconds.
        OSError: If the port of this worker is in use.
        RuntimeError: If the process computed something before it created the `"multi_worker"`
            strategy, or two workers have the same number.

    Example:

    >>> import keras
    >>> from keras_attn.training import make_strategy
    >>> with make_strategy("none").scope():
    ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    """
    if name not in NAMES:
        raise ValueError(f"Expected name to be one of {list(NAMES)}. Received: name={name!r}")
    if devices is not None and name != "mirrored":
        raise ValueError(
            'Expected devices only with name="mirrored". Received: '
            f'name={name!r}, devices={devices}. Omit devices, or set name="mirrored".'
        )
    cluster = None
    if name in ("auto", "multi_worker") and keras.backend.backend() != "torch":
        cluster = WorkerCluster.from_environment()
    if name == "multi_worker" or (cluster is not None and cluster.num_workers > 1):
        return _multi_worker(cluster, join_timeout)
    if keras.backend.backend() != "tensorflow":
        if name == "mirrored":
            raise ValueError(
                'Expected the TensorFlow backend for name="mirrored". Received: '
                f"backend={keras.backend.backend()!r}. Use keras.distribution.DataParallel on JAX."
            )
        return EmptyScope()
    import tensorflow as tf

    gpus = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices("GPU")]
    if name == "none" or (name == "auto" and len(gpus) < 2):
        return EmptyScope()
    return _mirrored(tuple(_checked_devices(gpus if devices is None else devices)))


_multi_worker_strategies: list[Strategy] = []
"""Cache of the multi-worker strategy of this process. It has at most one item."""


def _multi_worker(cluster: WorkerCluster | None, join_timeout: float) -> Strategy:
    """Returns the multi-worker strategy. A process can create it only once."""
    if cluster is None:
        raise ValueError(
            "Expected a process that was started as one of several workers. Received: "
            f'name="multi_worker" on the backend {keras.backend.backend()!r}, without the '
            "environment variables that name the workers. Start the program with `keras-attn "
            "launch`, on the backend tensorflow or jax."
        )
    if not join_timeout > 0:
        raise ValueError(f"Expected join_timeout > 0. Received: join_timeout={join_timeout}")
    if not _multi_worker_strategies:
        cluster.wait_for_all(join_timeout)
        if keras.backend.backend() == "tensorflow":
            created = multi_worker_strategy()
        else:
            keras.distribution.initialize()
            # `keras_attn.training.fit` selects the rows of each process.
            distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
            keras.distribution.set_distribution(distribution)
            created = EmptyScope(distribution.num_model_replicas)
        _multi_worker_strategies.append(created)
    return _multi_worker_strategies[0]


def _checked_devices(devices: Sequence[str]) -> list[str]:
    import tensorflow as tf

    if not devices:
        raise ValueError(
            'Expected at least one device for name="mirrored", by default all GPUs. Received: '
            'devices=[]. Use name="auto", or pass devices such as ["CPU:0"].'
        )
    existing = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices()]
    names = [device.upper().split("DEVICE:")[-1].lstrip("/") for device in devices]
    if not set(names) <= set(existing) or len(set(names)) < len(names):
        raise ValueError(
            f"Expected different devices from {existing}. Received: devices={list(devices)}."
        )
    return names


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> "tf.distribute.Strategy":
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


def reject_gradient_accumulation(model: keras.Model) -> None:
    """Raises a `ValueError` if a model accumulates gradients with a `tf.distribute` strategy.

    Keras fails in the first step of such a training, even with one replica.
    """
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    steps = getattr(optimizer, "gradient_accumulation_steps", None)
    if not steps:
        return
    with model.distribute_strategy.scope():
        if not tf.distribute.has_strategy():
            return
    raise ValueError(
        "Expected an optimizer without gradient accumulation under a tf.distribute strategy, "
        "because Keras cannot synchronize the replicas in this case. Received: "
        f"gradient_accumulation_steps={steps}, "
        f"strategy={type(model.distribute_strategy).__name__}. Use larger batches, or train "
        "without the strategy."
    )
