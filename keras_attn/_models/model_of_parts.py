import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Self

import keras

from keras_attn._backend.private_names import copy_layers_in
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._models.functional_model import functional_model
from keras_attn._models.model_inputs import (
    Symbolic,
    SymbolicInputs,
    call_encoder,
    deserialize_inputs,
    serialize_inputs,
)
from keras_attn._search.search import Search
from keras_attn._serialization.shared_layers import (
    deserialize_shared,
    serialize_shared,
    sharing_scope,
)
from keras_attn._types import TensorDict

Parameters = ParamSpec("Parameters")


class ModelOfParts(keras.Model):
    """Base class for functional models that consist of an encoder and a second layer.

    The configuration contains the two layers instead of the graph. `keras.saving.load_model`,
    `keras.models.model_from_json`, `keras.models.clone_model` and `from_config` preserve sublayers
    that both layers share.

    A subclass lists the constructor arguments to save in `PARTS` (layers) and `SETTINGS` (other
    values). It stores each argument in an attribute with the same name. Its constructor has
    the decorator `accepts_cloned_graph`.
    """

    PARTS: tuple[str, ...] = ()
    SETTINGS: tuple[str, ...] = ()

    def __init__(self, inputs: Symbolic, outputs: Symbolic, name: str) -> None:
        no_mode: Any = None
        with keras.RematScope(no_mode):  # see `functional_model`
            super().__init__(inputs, outputs, name=name)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        return super().call(self.structured(inputs), training, mask)

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Any:
        return super().compute_output_spec(self.structured(inputs), training, mask)

    def structured(self, inputs: Any) -> Any:
        """Converts inputs to the structure of the model's inputs.

        Args:
            inputs: Tensor, dict, or a list or tuple in the order of the model's inputs.

        Returns:
            A dict if the model has several inputs. With one input, the entry of a dict, or `inputs`
            unchanged.
        """
        if isinstance(self.input, dict):
            if isinstance(inputs, list | tuple):
                return dict(zip(self.input, inputs, strict=True))
        elif isinstance(inputs, dict):
            return inputs[self.inputs[0].name]  # Keras would warn about the dict
        return inputs

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **{name: serialize_shared(getattr(self, name)) for name in self.PARTS},
            **{name: getattr(self, name) for name in self.SETTINGS},
            "inputs": None if self.source is None else serialize_inputs(self.source),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, type] | None = None
    ) -> Self:
        with sharing_scope(), keras.saving.custom_object_scope(custom_objects or {}):
            parts = {name: deserialize_shared(config[name]) for name in cls.PARTS}
        inputs = None if config["inputs"] is None else deserialize_inputs(config["inputs"])
        return cls(**{**config, **parts, "inputs": inputs})


copy_layers_in(ModelOfParts, sharing_scope)


def check_part(
    name: str, part: object, kind: type | tuple[type, ...], expected: str, advice: str
) -> None:
    """Raises a `ValueError` if an argument is not an instance of a class.

    Args:
        name: String, argument name.
        part: Argument value.
        kind: Class or tuple of classes.
        expected: String, description of valid values.
        advice: String, sentence that says what to pass.
    """
    if not isinstance(part, kind):
        received = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
        raise ValueError(f"Expected {name} to be {expected}. Received: {name}={received}. {advice}")


def check_encoder(encoder: object) -> None:
    """Raises a `ValueError` if an encoder is neither a layer nor `None`."""
    expected = "a layer that reads the source, or None for a language model"
    advice = "Pass a layer, such as TransformerEncoder."
    check_part("encoder", encoder, (keras.layers.Layer, type(None)), expected, advice)
    if isinstance(encoder, StepDecoder | Search):
        raise ValueError(
            f"Expected encoder to be {expected}. Received: encoder={type(encoder).__name__}. Pass "
            "the encoder as the first argument."
        )


def check_reads_prompts(decoder: object) -> None:
    """Raises a `ValueError` if a decoder needs an encoder."""
    if not getattr(decoder, "reads_prompts", False):
        raise ValueError(
            "Expected an encoder, or a decoder that is a language model, such as "
            f"CausalLanguageModel. Received: encoder=None, decoder={type(decoder).__name__}. Pass "
            "the encoder that the decoder attends to."
        )


def encode(encoder: keras.layers.Layer, inputs: SymbolicInputs) -> TensorDict:
    """Calls an encoder with symbolic inputs and checks its outputs.

    Args:
        encoder: Layer.
        inputs: Tensor, or dict from input names to tensors.

    Returns:
        Dict of keyword arguments for a decoder or a search. The values are tensors or nested
        structures of tensors.

    Raises:
        ValueError: If the encoder does not return a dict with `encoder_outputs`.
    """
    encoded = call_encoder(encoder, inputs)
    if not isinstance(encoded, dict) or "encoder_outputs" not in encoded:
        received = list(encoded) if isinstance(encoded, dict) else type(encoded).__name__
        raise ValueError(
            "Expected an encoder that returns a dict with the arguments of a decoder, such as "
            '{"encoder_outputs": outputs, "encoder_mask": mask}. Received: '
            f"encoder={type(encoder).__name__}, which returns {received}. Return a dict from the "
            'call, or wrap the encoder: keras.Model(inputs, {"encoder_outputs": outputs}).'
        )
    return encoded


def accepts_cloned_graph(
    constructor: Callable[Parameters, None],
) -> Callable[Parameters, None]:
    """Decorates a constructor so that `keras.models.clone_model` returns the same class.

    For a functional model, `clone_model` copies and calls each layer. If the class constructor
    accepts `*args, **kwargs`, Keras calls it with the new inputs and outputs. Otherwise
    `clone_model` returns a plain functional model. Keras reads the signature with
    `inspect.getfullargspec`, which finds `*args, **kwargs` for the decorated constructor. `help`
    and `inspect.signature` show the original constructor's signature.

    Args:
        constructor: `__init__` of a `ModelOfParts`. The class must have a class method
            `parts_of_graph(inputs, layers)`, which returns the constructor arguments for the inputs
            and layers in a cloned graph.

    Returns:
        The decorated constructor.
    """

    construct: Callable[..., None] = constructor

    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        tensors = keras.tree.flatten(args[0]) if len(args) == 2 else []
        if tensors and all(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
            layers = [
                layer
                for layer in functional_model(*args, name=None).layers
                if not isinstance(layer, keras.layers.InputLayer)
            ]
            kwargs |= self.parts_of_graph(args[0], layers)
            args = ()
        construct(self, *args, **kwargs)

    return __init__
