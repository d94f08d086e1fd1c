import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_attn._backend.private_names import (
    freeze_function,
    inline_compiled_functions,
    logged_errors,
    one_walk_for_all_outputs,
    to_onnx,
)
from keras_attn.export._export_error import ExportError
from keras_attn.export._passes.clean import OPSET
from keras_attn.export._passes.graph import rename_values
from keras_attn.export._trace import (
    einsum_products,
    integer_division,
    operators,
    recurrent_operator,
)
from keras_attn.export._trace.trace_function import Trace

if TYPE_CHECKING:
    import onnx
    import tensorflow as tf

HANDLERS = {
    **recurrent_operator.HANDLERS,
    **integer_division.HANDLERS,
    **einsum_products.HANDLERS,
    **operators.HANDLERS,
}
"""Maps the name of a TensorFlow operator to the function that converts it, for operators that
tf2onnx converts wrongly or not at all. The dict is the argument `custom_op_handlers` of tf2onnx."""

# `one_walk_for_all_outputs` patches tf2onnx, and `logged_errors` reads its log, for all threads.
_LOCK = threading.Lock()


def convert(traced: Trace) -> "onnx.ModelProto":
    """Converts a traced function to an ONNX model with one initializer for each weight.

    Args:
        traced: `Trace`.

    Returns:
        An `onnx.ModelProto` of opset 18, with the outputs in the order of the function.

    Raises:
        ExportError: If tf2onnx cannot convert the function, or the function reads a variable that
            is not among its weights. (tf2onnx itself only logs operators that cannot be converted,
            and returns an invalid model.)
    """
    model = _to_onnx(traced)
    _attach_weights(model.graph, traced.weights)
    left_over = [value.name for value in model.graph.input if value.name not in traced.input_names]
    if left_over:
        raise ExportError(
            "Expected a function of its inputs, its weights and constants only. "
            f"Received: a function that also reads {left_over}. Make these variables weights of a "
            "layer of the model."
        )
    return model


def _to_onnx(traced: Trace) -> "onnx.ModelProto":
    import tensorflow as tf

    concrete, constants = traced.concrete, traced.constants
    tensor_names = [tensor.name for tensor in concrete.inputs]
    # In the order of the function's outputs. `concrete.outputs` is sorted by name instead.
    result_names = [concrete.structured_outputs[name].name for name in traced.output_names]
    given_names = [*traced.input_names, *traced.weights]
    renamed = {
        **dict(zip(tensor_names, given_names, strict=False)),
        **dict(zip(result_names, traced.output_names, strict=True)),
    }
    with _LOCK, logged_errors() as errors, one_walk_for_all_outputs(), tf.device("/cpu:0"):
        try:
            frozen = freeze_function(concrete, tensor_names, result_names)
            frozen = inline_compiled_functions(frozen, tensor_names, result_names)
            _insert_constants(frozen, constants)
            tensor_names = [name for name in tensor_names if name.split(":")[0] not in constants]
            with tf.Graph().as_default() as tf_graph:
                tf.import_graph_def(frozen, name="")
                model = to_onnx(tf_graph, OPSET, HANDLERS, tensor_names, result_names, renamed)
        except Exception as error:
            reasons = "\n".join([*errors, f"{type(error).__name__}: {error}"])
            raise ExportError(f"tf2onnx could not convert the model:\n{reasons}") from error
    if errors:
        raise ExportError(
            "tf2onnx could not convert the model:\n" + "\n".join(errors) + "\nReplace these "
            "operations by other operations of keras.ops. docs/exported_operations.md lists all "
            "operations that can be exported."
        )
    return model


def _insert_constants(
    graph_def: "tf.compat.v1.GraphDef", constants: Mapping[str, np.ndarray]
) -> None:
    """Replaces inputs of a `GraphDef` by constants, in place; `constants` is a dict of arrays."""
    import tensorflow as tf

    for node in graph_def.node:
        if node.name in constants:
            value = constants[node.name]
            node.op = "Const"
            node.attr.clear()
            node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))


def _attach_weights(graph: "onnx.GraphProto", weights: Mapping[str, keras.Variable]) -> None:
    """Replaces each input that stands for a weight by an initializer named after the weight."""
    from onnx import numpy_helper

    taken, names = {value.name for value in [*graph.input, *graph.output]}, {}
    used = {value.name for value in graph.input}
    for name_of_input, weight in weights.items():
        if name_of_input not in used:
            continue
        name, count = weight.path, 1
        while name in taken:
            name, count = f"{weight.path}_{count}", count + 1
        taken.add(name)
        names[name_of_input] = name
        # `append` would serialize a copy, which fails for tensors of 2 GiB or more.
        graph.initializer.add().CopyFrom(numpy_helper.from_array(weight.numpy(), name))
    inputs = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(inputs)
    rename_values(graph, names)
