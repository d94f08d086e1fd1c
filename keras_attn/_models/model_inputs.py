"""Functions for symbolic model inputs."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeGuard

import keras

from keras_attn._types import Tensor, TensorDict

SymbolicInputs: TypeAlias = keras.KerasTensor | dict[str, keras.KerasTensor]
"""Model inputs: a tensor, or a dict from names to tensors if there are several inputs."""

Symbolic: TypeAlias = "keras.KerasTensor | Sequence[Symbolic] | Mapping[str, Symbolic]"
"""Nested structure of symbolic tensors."""


class InputConfig(TypedDict):
    """Configuration of a `keras.Input`."""

    shape: list[int | None]
    dtype: str
    name: str


def source_inputs(
    encoder: keras.layers.Layer | None, inputs: SymbolicInputs | None = None
) -> SymbolicInputs:
    """Returns the symbolic inputs of a model's encoder.

    Args:
        encoder: Layer, or `None` for a language model that reads prompts.
        inputs: `keras.Input`, or a dict from names to `keras.Input`s. Defaults to copies of the
            encoder's inputs if it is a functional model, otherwise to `source_ids`, int32 of shape
            `(batch, source)`.

    Returns:
        A tensor if there is one input, otherwise a dict from input names to tensors.

    Raises:
        ValueError: If `inputs` does not consist of `keras.Input`s, or its keys are not the input
            names.
    """
    if inputs is None:
        if not is_functional(encoder):
            return input_tensor("source_ids")
        return _by_name([_copy(tensor) for tensor in encoder.inputs])
    tensors = inputs if isinstance(inputs, dict) else {getattr(inputs, "name", None): inputs}
    if not tensors or not all(isinstance(symbol, keras.KerasTensor) for symbol in tensors.values()):
        raise ValueError(
            "Expected inputs to be a keras.Input, or a dict from names to keras.Inputs. Received: "
            f"inputs={inputs!r}. Pass, for instance, "
            'inputs=keras.Input((224, 224, 3), name="image").'
        )
    names = [symbol.name for symbol in tensors.values()]
    if list(tensors) != names:
        raise ValueError(
            "Expected the keys of inputs to be the names of the inputs. Received: inputs with keys "
            f"{list(tensors)} and names {names}. Create each with keras.Input(..., name=key)."
        )
    return _by_name(list(tensors.values()))


def call_encoder(
    encoder: keras.layers.Layer, inputs: Tensor | Mapping[str, Tensor], **arguments: object
) -> TensorDict:
    """Calls an encoder. An input dict is passed as keyword arguments.

    Args:
        encoder: Layer.
        inputs: Tensor, or dict from input names to tensors, see `source_inputs`.
        **arguments: Further call arguments, such as `training`.

    Returns:
        The encoder's outputs.
    """
    if is_functional(encoder):
        is_dict = isinstance(inputs, dict)
        values = [inputs[tensor.name] if is_dict else inputs for tensor in encoder.inputs]
        return encoder(keras.tree.pack_sequence_as(encoder.input, values), **arguments)
    if isinstance(inputs, dict):
        return encoder(**inputs, **arguments)
    return encoder(inputs, **arguments)


def is_functional(layer: object) -> TypeGuard[keras.Model]:
    """Returns whether a layer is a Keras model with known inputs."""
    return isinstance(layer, keras.Model) and bool(getattr(layer, "inputs", None))


def reads_ids(inputs: SymbolicInputs) -> TypeGuard[keras.KerasTensor]:
    """Returns whether a model's input is a single int tensor `(batch, source)`."""
    return not isinstance(inputs, dict) and len(inputs.shape) == 2 and "int" in inputs.dtype


def serialize_inputs(inputs: SymbolicInputs) -> InputConfig | list[InputConfig]:
    """Converts the result of `source_inputs` to a dict or a list of dicts for JSON."""
    if isinstance(inputs, dict):
        return [_config(tensor) for tensor in inputs.values()]
    return _config(inputs)


def _config(tensor: keras.KerasTensor) -> InputConfig:
    return {"shape": list(tensor.shape), "dtype": tensor.dtype, "name": tensor.name}


def deserialize_inputs(config: InputConfig | list[InputConfig]) -> SymbolicInputs:
    """Inverse of `serialize_inputs`."""
    if isinstance(config, dict):
        return input_tensor(config["name"], config["shape"], config["dtype"])
    return {
        item["name"]: input_tensor(item["name"], item["shape"], item["dtype"]) for item in config
    }


def input_tensor(
    name: str | None, batch_shape: Sequence[int | None] = (None, None), dtype: str = "int32"
) -> keras.KerasTensor:
    """Returns a `keras.Input`, by default for int32 ids of shape `(batch, time)`."""
    tensor: Any = keras.Input(batch_shape=batch_shape, dtype=dtype, name=name)
    return tensor  # the annotations in Keras are incomplete


def _by_name(tensors: Sequence[keras.KerasTensor]) -> SymbolicInputs:
    return tensors[0] if len(tensors) == 1 else {tensor.name: tensor for tensor in tensors}


def _copy(tensor: keras.KerasTensor) -> keras.KerasTensor:
    return input_tensor(tensor.name, tensor.shape, tensor.dtype)


def symbolic_inputs(model: keras.Model) -> SymbolicInputs:
    """Returns the inputs of a functional model."""
    inputs: Any = model.input
    return inputs  # the annotations in Keras are incomplete


def is_arrays(values: object) -> bool:
    """Returns whether the argument `x` of `fit` consists of arrays, unlike a dataset."""
    return isinstance(values, dict | list | tuple) or hasattr(values, "shape")
