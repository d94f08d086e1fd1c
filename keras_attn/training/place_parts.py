import collections
import functools
from collections.abc import Mapping
from typing import Any

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer
from keras_attn.attention.attention_mechanism import AttentionMechanism
from keras_attn.attention.multi_head_attention import MultiHeadAttention

PARTS = ("encoder", "attention", "decoder")
METHODS = (
    "__call__",
    "prepare_memory",
    "initial_state",
    "get_initial_state",
    "step",
    "attend_step",
    "attend",
    "align",
)
"""Methods, with `build`, in which layers create variables and operations."""


def place_parts(encoder: Any, decoder: Any, devices: Mapping[str, str]) -> None:
    """Places the encoder, the attention and the decoder of a model on devices of their own.

    Models that do not fit on one device can so be divided. The device of a part has its variables,
    the moments of the optimizer that belong to them, and its operations, in training, in searches
    and in `predict`. The results are those of one device. The devices work one after the other.
    Call this function before the layers are built, which is when a model is made of them, and train
    without `jit_compile`, as `compile_for_training` does: XLA compiles for one device.

    Args:
        encoder: layer of this package that is not built yet, or `None`.
        decoder: `StepDecoder` that is not built yet.
        devices: dict from `"encoder"`, `"attention"` and `"decoder"` to names of devices such as
            `"GPU:1"`. `"attention"` is the attention of an RNN decoder; by default it is where the
            decoder is, as that of a Transformer always is. Parts that are not named stay on the
            default device.

    Raises:
        ValueError: an unknown part or device, a part that is built already, or another backend than
            TensorFlow. On JAX use `keras.distribution.ModelParallel`.

    Example:

    ```python
    encoder, decoder = rnn_seq2seq(8000, 8000)
    place_parts(encoder, decoder, {"encoder": "GPU:0", "decoder": "GPU:1"})
    trainer = compile_for_training(TrainingModel(encoder, decoder))
    ```
    """
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "Expected the TensorFlow backend. Received: keras.backend.backend()="
            f"{keras.backend.backend()!r}. On JAX use keras.distribution.ModelParallel."
        )
    unknown = sorted(set(devices) - set(PARTS))
    if unknown:
        raise ValueError(f"Expected parts out of {list(PARTS)}. Received: devices with {unknown}")
    devices = {part: _checked_device(device) for part, device in devices.items()}
    parts = {
        "encoder": [] if encoder is None else [encoder],
        "decoder": [decoder],
        "attention": [
            layer
            for layer in flatten_layers([decoder])
            if isinstance(layer, (AttentionMechanism, MultiHeadAttention))
        ],
    }
    for part in devices:
        if not parts[part]:
            raise ValueError(
                f"Expected an encoder and decoder with the part {part!r}. Received: "
                f"devices={devices}. The attention of a Transformer is a part of its blocks: place "
                "the whole decoder, and leave out parts that are None."
            )
        for layer in parts[part]:
            _check_layer(part, layer)
    for part, device in devices.items():
        for layer in parts[part]:
            layer.__class__ = _placed_class(type(layer))
            layer.__dict__["placed_on"] = device
            # Keras replaces this method on each layer.
            layer.__dict__["build"] = _build_on(device, layer.build)


def device_report(model: keras.Model) -> dict[str, dict[str, int]]:
    """Counts the bytes of variables and the operations of a model on each device.

    Args:
        model: built model on TensorFlow. If it is compiled, the variables of its optimizer count.

    Returns:
        Dict from names of devices, such as `"CPU:1"`, to dicts with the ints `"bytes"` and
        `"operations"`. Operations are those of the model's call, also inside of loops, that were
        placed on the device explicitly; TensorFlow shows each decision of a run after
        `tf.debugging.set_log_device_placement(True)`.

    Example:

    ```python
    device_report(trainer)  # {"CPU:0": {"bytes": 5320, "operations": 210}, ...}
    ```
    """
    import tensorflow as tf

    report: Any = collections.defaultdict(lambda: {"bytes": 0, "operations": 0})
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    for variable in {id(each): each for each in variables}.values():
        value: Any = variable.value
        size = tf.as_dtype(value.dtype).size * value.shape.num_elements()
        report[_short_name(value.device)]["bytes"] += size

    def specification(tensor):
        return tf.TensorSpec(tensor.shape, tensor.dtype)

    inputs = keras.tree.map_structure(specification, model.input)
    function: Any = tf.function(lambda inputs: model(inputs, training=False))
    graph = function.get_concrete_function(inputs).graph
    nodes = list(graph.as_graph_def().node)
    for body in graph.as_graph_def().library.function:
        nodes.extend(body.node_def)
    for node in nodes:
        if node.device:
            report[_short_name(node.device)]["operations"] += 1
    return {name: report[name] for name in sorted(report)}


def _checked_device(device):
    """The name of a device that exists, such as "CPU:1"."""
    import tensorflow as tf

    known = [_short_name(each.name) for each in tf.config.list_logical_devices()]
    name = _short_name(device) if isinstance(device, str) else device
    if name not in known:
        raise ValueError(f"Expected devices out of {known}. Received: {device!r}")
    return name


def _short_name(name):
    return name.upper().split("DEVICE:")[-1].lstrip("/")


def _check_layer(part, layer):
    if not isinstance(layer, Layer):
        raise ValueError(
            f"Expected a layer of keras_attn for {part!r}. Received: {type(layer).__name__}"
        )
    if layer.built:
        raise ValueError(
            f"Expected layers that are not built yet, because variables stay where they were "
            f"created. Received: {layer.name!r}, which is built. Place the parts before a model is "
            "made of them."
        )


@functools.cache
def _placed_class(layer_class):
    """A subclass of a layer's class whose methods run on the device that the layer is placed on."""
    if getattr(layer_class, "is_placed", False):
        return layer_class
    methods = {
        name: _on_device(getattr(layer_class, name))
        for name in METHODS
        if hasattr(layer_class, name)
    }
    names = {name: getattr(layer_class, name) for name in ("__module__", "__qualname__", "__doc__")}
    placed = type(layer_class.__name__, (layer_class,), {**names, **methods, "is_placed": True})
    # A saved layer is one of the original class, so both have its name, and the name stands for it.
    package, _, name = keras.saving.get_registered_name(layer_class).rpartition(">")
    if package:
        for each in (placed, layer_class):
            keras.saving.register_keras_serializable(package, name)(each)
    return placed


def _build_on(device, build):
    @functools.wraps(build)
    def placed(*args, **kwargs):
        with keras.device(device):
            return build(*args, **kwargs)

    return placed


def _on_device(method):
    @functools.wraps(method)
    def placed(self, *args, **kwargs):
        device = self.__dict__.get("placed_on")
        if device is None:  # of a clone
            return method(self, *args, **kwargs)
        with keras.device(device):
            return method(self, *args, **kwargs)

    return placed
