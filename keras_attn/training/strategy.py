import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import keras


class SingleDevice:
    """Strategy for a single device; its scope does nothing."""

    num_replicas_in_sync = 1

    def scope(self) -> Any:
        return contextlib.nullcontext()


def strategy(name: str = "auto", devices: Sequence[str] | None = None) -> Any:
    """Returns the strategy for the devices of a training. Build and compile the model in its scope.

    Args:
        name: String. `"none"`: the default device. `"mirrored"`: `tf.distribute.MirroredStrategy`,
            in which each device holds all weights and computes a part of each batch. `"auto"`:
            `"mirrored"` if there are several GPUs, otherwise `"none"`. Defaults to `"auto"`.
        devices: List of strings such as `["GPU:0", "GPU:1"]`, for `"mirrored"` only. Defaults to
            `None`, all GPUs.

    Returns:
        An object with `scope()` and `num_replicas_in_sync`. The same devices always result in the
        same object, because TensorFlow supports only one `MirroredStrategy` in a process.

    Raises:
        ValueError: If `name` or a device is unknown, a device is repeated, `devices` are given
            without `"mirrored"`, or `"mirrored"` is used without GPUs or on another backend than
            TensorFlow.

    Example:

    >>> with strategy("none").scope():
    ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    """
    if name not in ("auto", "none", "mirrored"):
        raise ValueError(
            f"Expected name to be one of ('auto', 'none', 'mirrored'). Received: name={name!r}."
        )
    if devices is not None and name != "mirrored":
        raise ValueError(
            'Expected devices only with name="mirrored". Received: '
            f'name={name!r}, devices={devices}. Omit devices, or set name="mirrored".'
        )
    if keras.backend.backend() != "tensorflow":
        if name == "mirrored":
            raise ValueError(
                'Expected the TensorFlow backend for name="mirrored". Received: '
                f"backend={keras.backend.backend()!r}. Use keras.distribution.DataParallel on JAX."
            )
        return SingleDevice()
    import tensorflow as tf

    gpus = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices("GPU")]
    if name == "none" or (name == "auto" and len(gpus) < 2):
        return SingleDevice()
    return _mirrored(tuple(_checked_devices(gpus if devices is None else devices)))


def _checked_devices(devices):
    import tensorflow as tf

    if not devices:
        raise ValueError(
            'Expected at least one device for name="mirrored", by default all GPUs. Received: no '
            'devices. Use name="auto", or pass devices such as ["CPU:0"].'
        )
    known = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices()]
    names = [device.upper().split("DEVICE:")[-1].lstrip("/") for device in devices]
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(
            f"Expected different devices from {known}. Received: devices={list(devices)}."
        )
    return names


@functools.cache
def _mirrored(devices):
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


def refuse_gradient_accumulation(model: keras.Model) -> None:
    """Raises a `ValueError` if a model accumulates gradients under a `tf.distribute` strategy.

    Keras would fail in the first step, even with one replica.
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
        "because Keras cannot synchronize the replicas then. Received: "
        f"gradient_accumulation_steps={steps}, "
        f"strategy={type(model.distribute_strategy).__name__}. Use larger batches, or train "
        "without the strategy."
    )
