"""The inputs of models: any `keras.Input`s, by name."""

from typing import Any

import keras


def source_inputs(encoder: Any, inputs: Any = None) -> Any:
    """The symbolic inputs that a model passes to its encoder.

    Args:
        encoder: layer, or `None` for prompts of a language model.
        inputs: a `keras.Input`, or a dict of them by their names. Defaults to inputs like those of
            `encoder` if it is a functional model, else to `source_ids`, int32 `(batch, source)`.

    Returns:
        A tensor for one input, or a dict of tensors by their names.

    Raises:
        ValueError: something else than inputs, or keys that are not their names.
    """
    if inputs is None:
        if not is_functional(encoder):
            return keras.Input((None,), dtype="int32", name="source_ids")
        return _by_name([_copy(tensor) for tensor in encoder.inputs])
    tensors = inputs if isinstance(inputs, dict) else {getattr(inputs, "name", None): inputs}
    if not tensors or not all(isinstance(each, keras.KerasTensor) for each in tensors.values()):
        raise ValueError(
            "Expected inputs to be a keras.Input or a dict of them by their names. Received: "
            f"inputs={inputs!r}. Pass, for instance, "
            'inputs=keras.Input((224, 224, 3), name="image").'
        )
    names = [each.name for each in tensors.values()]
    if list(tensors) != names:
        raise ValueError(
            "Expected the keys of inputs to be the names of the inputs. Received: keys "
            f"{list(tensors)} for inputs named {names}. Create each with keras.Input(..., "
            "name=key)."
        )
    return _by_name(list(tensors.values()))


def call_encoder(encoder: Any, inputs: Any, **arguments: Any) -> Any:
    """Calls an encoder with inputs as from `source_inputs`; several are arguments by name.

    Args:
        encoder: layer.
        inputs: tensor, or dict of tensors.
        **arguments: further arguments of the call, such as `training`.

    Returns:
        What the encoder returns.
    """
    if is_functional(encoder):
        is_dict = isinstance(inputs, dict)
        values = [inputs[each.name] if is_dict else inputs for each in encoder.inputs]
        return encoder(keras.tree.pack_sequence_as(encoder.input, values), **arguments)
    if isinstance(inputs, dict):
        return encoder(**inputs, **arguments)
    return encoder(inputs, **arguments)


def is_functional(layer: Any) -> bool:
    """Whether a layer is a Keras model that knows its inputs."""
    return isinstance(layer, keras.Model) and bool(getattr(layer, "inputs", None))


def reads_ids(inputs: Any) -> bool:
    """Whether inputs as from `source_inputs` are the ids of one sequence, `(batch, source)`."""
    return not isinstance(inputs, dict) and len(inputs.shape) == 2 and "int" in inputs.dtype


def serialize_inputs(inputs: Any) -> Any:
    """Inputs as from `source_inputs` in a form for a configuration: a dict, or a list of dicts."""
    if isinstance(inputs, dict):
        return [serialize_inputs(each) for each in inputs.values()]
    return {"shape": list(inputs.shape), "dtype": inputs.dtype, "name": inputs.name}


def deserialize_inputs(config: Any) -> Any:
    """The inverse of `serialize_inputs`."""
    if isinstance(config, dict):
        return keras.Input(batch_shape=config["shape"], dtype=config["dtype"], name=config["name"])
    return {each["name"]: deserialize_inputs(each) for each in config}


def _by_name(tensors):
    return tensors[0] if len(tensors) == 1 else {tensor.name: tensor for tensor in tensors}


def _copy(tensor):
    return keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype, name=tensor.name)


def is_arrays(values: Any) -> bool:
    """Whether the argument `x` of `fit` or `predict` is arrays, not a dataset or a generator."""
    return isinstance(values, dict | list | tuple) or hasattr(values, "shape")
