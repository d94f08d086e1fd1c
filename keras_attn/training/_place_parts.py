import collections
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import keras

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.multi_head_attention import MultiHeadAttention
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer

if TYPE_CHECKING:
    import tensorflow as tf

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
"""Methods in which layers create operations. Layers create variables in `build`."""


def place_parts(
    encoder: keras.layers.Layer | None, decoder: keras.layers.Layer, devices: Mapping[str, str]
) -> None:
    """Places a model's encoder, attention and decoder on different devices.

    Use this function if a model does not fit into the memory of one device. Each device stores the
    variables of its part with their optimizer moments, and runs its operations in training, in
    searches and in `predict`. The results are the same as on one device. The devices work one after
    the other, not in parallel.

    Call this function before the layers are built, that is, before you create a model from them.
    Compile the model with `jit_compile=False`, as `compile_for_training` does, because XLA compiles
    for a single device.

    Args:
        encoder: Layer of this package, not built yet, or `None`.
        decoder: `StepDecoder`, not built yet.
        devices: Dict from part names to device names, such as `{"decoder": "GPU:1"}`. The parts are
            `"encoder"`, `"decoder"` and `"attention"`. `"attention"` means the attention layers of
            an RNN decoder; if it is not in the dict, these layers are placed with the decoder. The
            attention of a Transformer is always placed with the decoder. An encoder or decoder that
            is not in the dict stays on the default device.

    Raises:
        ValueError: If a part or device is unknown, a part is already built, or the backend is not
            TensorFlow. On JAX, use `keras.distribution.ModelParallel`.

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
    parts: dict[str, list[Any]] = {
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
            # Keras stores a wrapper of `build` on each instance, so wrap the instance's method.
            layer.__dict__["build"] = _build_on(device, layer.build)


def device_report(model: keras.Model) -> dict[str, dict[str, int]]:
    """Returns the sizes of a model's variables and the numbers of its operations by device.

    Args:
        model: Built model on TensorFlow. If it is compiled, the bytes include the optimizer
            variables.

    Returns:
        Dict from device names, such as `"CPU:1"`, to dicts with the ints `"bytes"` and
        `"operations"`. `"operations"` is the number of operations of `model.call`, including loop
        bodies, that were placed on a device explicitly. To see where TensorFlow places all
        operations of a run, call `tf.debugging.set_log_device_placement(True)`.

    Example:

    ```python
    device_report(trainer)  # {"CPU:0": {"bytes": 5320, "operations": 210}, ...}
    ```
    """
    import tensorflow as tf

    report: dict[str, dict[str, int]] = collections.defaultdict(
        lambda: {"bytes": 0, "operations": 0}
    )
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    for variable in {id(variable): variable for variable in variables}.values():
        value: Any = variable.value
        size = tf.as_dtype(value.dtype).size * value.shape.num_elements()
        report[_short_name(value.device)]["bytes"] += size

    def specification(tensor: keras.KerasTensor) -> "tf.TensorSpec":
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


def _checked_device(device: str) -> str:
    """Returns a device's short name, such as "CPU:1", and checks that it exists."""
    import tensorflow as tf

    existing = [_short_name(logical.name) for logical in tf.config.list_logical_devices()]
    name = _short_name(device) if isinstance(device, str) else device
    if name not in existing:
        raise ValueError(f"Expected devices out of {existing}. Received: {device!r}")
    return name


def _short_name(name: str) -> str:
    return name.upper().split("DEVICE:")[-1].lstrip("/")


def _check_layer(part: str, layer: keras.layers.Layer) -> None:
    if not isinstance(layer, Layer):
        raise ValueError(
            f"Expected a layer of keras_attn for {part!r}. Received: {type(layer).__name__}"
        )
    if layer.built:
        raise ValueError(
            f"Expected layers that are not built yet, because the variables of a built layer stay "
            f"on their device. Received: {layer.name!r}, built=True. Call place_parts before you "
            "create a model from the layers."
        )


@functools.cache
def _placed_class(layer_class: type[keras.layers.Layer]) -> type[keras.layers.Layer]:
    """Returns a subclass whose methods run on the device `placed_on`."""
    if getattr(layer_class, "is_placed", False):
        return layer_class
    methods = {
        name: _on_device(getattr(layer_class, name))
        for name in METHODS
        if hasattr(layer_class, name)
    }
    names = {name: getattr(layer_class, name) for name in ("__module__", "__qualname__", "__doc__")}
    placed = type(layer_class.__name__, (layer_class,), {**names, **methods, "is_placed": True})
    # Saved files must contain the name of the original class, and loading must create that class.
    # So register both classes under this name, the original class last.
    package, _, name = keras.saving.get_registered_name(layer_class).rpartition(">")
    if package:
        for registered in (placed, layer_class):
            keras.saving.register_keras_serializable(package, name)(registered)
    return placed


def _build_on(device: str, build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def placed(*args: object, **kwargs: object) -> None:
        with keras.device(device):
            return build(*args, **kwargs)

    return placed


def _on_device(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def placed(self: keras.layers.Layer, *args: object, **kwargs: object) -> object:
        device = self.__dict__.get("placed_on")
        if device is None:  # a copy of a placed layer has no device
            return method(self, *args, **kwargs)
        with keras.device(device):
            return method(self, *args, **kwargs)

    return placed
