import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import keras


class SingleDevice:
    """Stands for a strategy where there is only one device: its scope does nothing."""

    num_replicas_in_sync = 1

    def scope(self) -> Any:
        return contextlib.nullcontext()


def strategy(name: str = "auto", devices: Sequence[str] | None = None) -> Any:
    """The devices that a model is trained on. Build and compile the model in its scope.

    Args:
        name: `"auto"` (all GPUs if there are more than one, else the default device), `"none"`
            (the default device) or `"mirrored"` (`tf.distribute.MirroredStrategy`: every device
            holds all weights and computes a part of each batch). Default `"auto"`.
        devices: optional list of strings such as `["GPU:0", "GPU:1"]`, for `"mirrored"` only.
            Default: all GPUs.

    Returns:
        An object with `scope()` and `num_replicas_in_sync`. The same devices give the same object,
        because TensorFlow supports one `MirroredStrategy` per process.

    Raises:
        ValueError: an unknown name, `devices` without `"mirrored"`, unknown or repeated devices,
            `"mirrored"` without GPUs or on another backend than TensorFlow.

    Example:

    >>> with strategy("none").scope():
    ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    """
    if name not in ("auto", "none", "mirrored"):
        raise ValueError(f'Expected name "auto", "none" or "mirrored". Received: name={name!r}')
    if devices is not None and name != "mirrored":
        raise ValueError(
            'Expected devices only with name="mirrored". '
            f"Received: name={name!r}, devices={devices}"
        )
    if keras.backend.backend() != "tensorflow":
        if name == "mirrored":
            raise ValueError(
                'Expected name "auto" or "none": MirroredStrategy needs the TensorFlow backend. '
                f"Received: name={name!r}, keras.backend.backend()={keras.backend.backend()!r}"
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
            'Expected at least one device for name="mirrored". Received: none, and TensorFlow sees '
            'no GPU. Use name="auto", or name devices such as devices=["CPU:0"].'
        )
    known = [device.name.split("device:")[-1] for device in tf.config.list_logical_devices()]
    names = [device.upper().split("DEVICE:")[-1].lstrip("/") for device in devices]
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(f"Expected different devices out of {known}. Received: devices={devices}")
    return names


@functools.cache
def _mirrored(devices):
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


def refuse_gradient_accumulation(model: keras.Model) -> None:
    """Raises if a compiled model accumulates gradients under a `tf.distribute` strategy.

    Raises:
        ValueError: it does; Keras would fail in the first step, also with one replica.
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
        "Expected an optimizer without gradient accumulation under a tf.distribute strategy: Keras "
        "applies the accumulated gradients inside of a condition, in which TensorFlow cannot "
        f"synchronize replicas. Received: gradient_accumulation_steps={steps}, "
        f"strategy={type(model.distribute_strategy).__name__}. Use larger batches, which the "
        "replicas divide, or train without the strategy."
    )
