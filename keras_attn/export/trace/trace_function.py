import dataclasses
from typing import Any

import keras

from keras_attn.export.export_error import ExportError


@dataclasses.dataclass
class Trace:
    """A function as a TensorFlow graph, whose weights are inputs.

    Attributes:
        concrete: the concrete function; its inputs are those of the signature and the weights.
        input_names: list of the names of the inputs of the signature.
        output_names: list of the names of the outputs, in the order of the function's.
        weights: dictionary from the name of an input to the `keras.Variable` that it stands for.
    """

    concrete: Any
    input_names: list
    output_names: list
    weights: dict

    @property
    def constants(self) -> Any:
        """Dictionary from the name of a graph input to the constant that it stands for.

        TensorFlow makes an input of each eager tensor that a function reads, such as the operand of
        `x * keras.ops.convert_to_tensor([1.0, 2.0])`, unless it is very small.
        """
        import tensorflow as tf

        others = (tf.resource, tf.variant, tf.string)
        return {
            placeholder.op.name: value.numpy()
            for value, placeholder in self.concrete.graph.captures
            if isinstance(value, tf.Tensor) and value.dtype not in others
        }


def trace(function: Any, signature: Any, weights: Any) -> Any:
    """Traces a function of tensors, with its weights as further inputs.

    tf2onnx copies and serializes the graph for each of its optimizers. So the weights are kept
    out of the graph while it works, and the inputs become initializers afterwards.

    Args:
        function: callable that takes the tensors of `signature` in this order and returns a
            dictionary from output name to tensor. It may use any of `weights`. Other tensors that
            it reads become constants.
        signature: list of `tf.TensorSpec`, each with a name: the inputs of the ONNX model.
        weights: list of `keras.Variable`: all variables that `function` reads, the states of
            random generators included.

    Returns:
        A `Trace`.

    Raises:
        ExportError: TensorFlow cannot trace the function, or an output is named like an input.
    """
    import tensorflow as tf

    weight_specs = [
        tf.TensorSpec(weight.shape, weight.dtype, name=f"keras_attn_weight_{index}")
        for index, weight in enumerate(weights)
    ]

    def function_of_weights(*tensors):
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
