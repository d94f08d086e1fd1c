import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_attn.export._export_error import ExportError

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass
class Trace:
    """A function as a TensorFlow graph whose inputs include the weights.

    Attributes:
        concrete: The concrete function. Its inputs are the inputs of the signature, then the
            weights.
        input_names: List of the names of the inputs of the signature.
        output_names: List of the names of the outputs, in the order of the function.
        weights: Dict from the names of inputs to the `keras.Variable`s that they represent.
    """

    concrete: "tf.types.experimental.ConcreteFunction"
    input_names: list[str]
    output_names: list[str]
    weights: dict[str, keras.Variable]

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """Dict from the names of graph inputs to the constants that they represent.

        TensorFlow creates a graph input for each eager tensor that a function reads, for instance
        for `table` in `x * table`. Very small tensors have no graph input: TensorFlow stores them
        in the graph.
        """
        import tensorflow as tf

        other_dtypes = (tf.resource, tf.variant, tf.string)
        return {
            placeholder.op.name: value.numpy()
            for value, placeholder in self.concrete.graph.captures
            if isinstance(value, tf.Tensor) and value.dtype not in other_dtypes
        }


def trace(
    function: "Callable[..., Mapping[str, tf.Tensor]]",
    signature: "Sequence[tf.TensorSpec]",
    weights: Sequence[keras.Variable],
) -> Trace:
    """Traces a function of tensors, with its weights as further inputs.

    Each optimization pass of tf2onnx copies and serializes the whole graph. To keep these copies
    small, the weights are inputs of the graph during the conversion. Afterwards, these inputs
    become initializers.

    Args:
        function: Function that takes the tensors of `signature` in this order, and returns a dict
            from output names to tensors. It may read `weights`. Other tensors that it reads become
            constants.
        signature: List of `tf.TensorSpec` with names, the inputs of the ONNX model.
        weights: List of all `keras.Variable`s that `function` reads, including the states of random
            generators.

    Returns:
        A `Trace`.

    Raises:
        ExportError: If TensorFlow cannot trace the function, or an output has the name of an input.
    """
    import tensorflow as tf

    weight_specs = [
        tf.TensorSpec(weight.shape, weight.dtype, name=f"keras_attn_weight_{index}")
        for index, weight in enumerate(weights)
    ]

    def function_of_weights(*tensors: "tf.Tensor") -> "Mapping[str, tf.Tensor]":
        inputs, values = tensors[: len(signature)], tensors[len(signature) :]
        with keras.StatelessScope(state_mapping=list(zip(weights, values, strict=True))):
            return function(*inputs)

    graph_function = tf.function(
        function_of_weights, input_signature=[*signature, *weight_specs], autograph=False
    )
    try:
        concrete = graph_function.get_concrete_function()
    except (TypeError, NotImplementedError, AttributeError, tf.errors.OpError) as error:
        raise ExportError(
            "Expected a model that TensorFlow can trace, without Python code that reads values of "
            f"tensors. Received: {type(error).__name__}: {error}"
        ) from error
    input_names = [spec.name for spec in signature]
    output_names = list(concrete.structured_outputs)
    if set(input_names) & set(output_names):
        raise ExportError(
            "Expected outputs named differently from the inputs. "
            f"Received: inputs={input_names}, outputs={output_names}."
        )
    names = [spec.name for spec in weight_specs]
    return Trace(concrete, input_names, output_names, dict(zip(names, weights, strict=True)))
