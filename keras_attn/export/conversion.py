import contextlib
import logging
import threading

import keras

from keras_attn.export import einsum_products, integer_division, recurrent_operator
from keras_attn.export.export_error import ExportError
from keras_attn.export.passes.graph import rename_values

OPSET = 18
"""The newest opset tf2onnx writes, and the newest whose Loop, TopK and LSTM all have CUDA kernels
in ONNX Runtime."""


# What changes tf2onnx while it works is there for all threads.
_LOCK = threading.Lock()


def convert(function, signature, weights):
    """Converts a function of tensors to an ONNX model with one initializer a weight.

    tf2onnx copies and serialises the graph for each of its optimizers. So the weights are kept
    out of the graph while it works: the function is traced with the weights as further inputs,
    and those inputs become initializers afterwards.

    Args:
        function: callable that takes the tensors of `signature` in this order and returns a
            dictionary from output name to tensor. It may use any of `weights`.
        signature: list of `tf.TensorSpec`, each with a name: the inputs of the ONNX model.
        weights: list of `keras.Variable`: all variables that `function` reads.

    Returns:
        An `onnx.ModelProto` of opset 18. Its outputs are in the order of the function's.

    Raises:
        ExportError: tf2onnx reported an operator or a construct that it cannot convert (it would
            go on and return an invalid model), or the function reads a tensor or variable which
            is neither an input nor a weight, or an output is named like an input.
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
    concrete = graph_function.get_concrete_function()
    input_names = [spec.name for spec in signature]
    output_names = list(concrete.structured_outputs)
    if set(input_names) & set(output_names):
        raise ExportError(
            "Expected outputs named differently from the inputs. "
            f"Received: inputs={input_names}, outputs={output_names}."
        )
    model = _to_onnx(concrete, [*input_names, *(spec.name for spec in weight_specs)], output_names)
    _attach_weights(model.graph, weights, weight_specs)
    left_over = [value.name for value in model.graph.input if value.name not in input_names]
    if left_over:
        raise ExportError(
            "Expected a function of its inputs and its weights alone. "
            f"Received: a function that reads other tensors too, {left_over}. Make the constants "
            "inside the function (or keep them as NumPy arrays), or as weights of a layer."
        )
    return model


def _to_onnx(concrete, input_names, output_names):
    import tensorflow as tf
    from tf2onnx import tf_loader, tfonnx
    from tf2onnx.optimizer import optimize_graph

    tensor_names = [tensor.name for tensor in concrete.inputs]
    # In the function's order; `concrete.outputs` is sorted by name.
    result_names = [concrete.structured_outputs[name].name for name in output_names]
    renamed = {
        **dict(zip(tensor_names, input_names, strict=False)),
        **dict(zip(result_names, output_names, strict=True)),
    }
    with _LOCK, _logged_errors() as errors, _one_walk_for_all_outputs(), tf.device("/cpu:0"):
        try:
            frozen = tf_loader.from_function(concrete, tensor_names, result_names)
            with tf.Graph().as_default() as tf_graph:
                tf.import_graph_def(frozen, name="")
                graph = tfonnx.process_tf_graph(
                    tf_graph,
                    continue_on_error=True,
                    opset=OPSET,
                    custom_op_handlers={
                        **recurrent_operator.HANDLERS,
                        **integer_division.HANDLERS,
                        **einsum_products.HANDLERS,
                    },
                    input_names=tensor_names,
                    output_names=result_names,
                    tensors_to_rename=renamed,
                )
                graph = optimize_graph(graph, catch_errors=False, optimizers=_optimizers())
                model = graph.make_model("keras_attn")
        except Exception as error:
            reasons = "\n".join([*errors, f"{type(error).__name__}: {error}"])
            raise ExportError(f"tf2onnx could not convert the model:\n{reasons}") from error
    if errors:
        raise ExportError("tf2onnx could not convert the model:\n" + "\n".join(errors))
    return model


def _optimizers():
    """The tf2onnx optimizers that change these graphs; the others only take time."""
    from tf2onnx.optimizer.const_fold_optimizer import ConstFoldOptimizer
    from tf2onnx.optimizer.identity_optimizer import IdentityOptimizer
    from tf2onnx.optimizer.loop_optimizer import LoopOptimizer
    from tf2onnx.optimizer.merge_duplicated_nodes_optimizer import MergeDuplicatedNodesOptimizer

    return {
        "fold_constants": ConstFoldOptimizer,
        "loop_optimizer": LoopOptimizer,
        "merge_duplication": MergeDuplicatedNodesOptimizer,
        "remove_identity": IdentityOptimizer,
    }


@contextlib.contextmanager
def _one_walk_for_all_outputs():
    """Halves the time of tf2onnx, which looks for unused nodes dozens of times.

    It walks the graph anew for each output, and the body of a loop that carries hundreds of weights
    has hundreds of outputs. One walk from all of them finds the same nodes.
    """
    from tf2onnx.graph import Graph

    original = Graph.extract_sub_graph_nodes

    def used_nodes(graph, outputs_name, input_checker=None, remove_unused_inputs=True):
        if input_checker is not None:
            return original(graph, outputs_name, input_checker, remove_unused_inputs)
        open_names, nodes = list(outputs_name), {}
        if not remove_unused_inputs:
            open_names += [node.output[0] for node in graph.inputs]
        while open_names:
            node = graph.get_node_by_output(open_names.pop(), search_in_parent_graphs=False)
            if node is not None and node.name not in nodes:
                nodes[node.name] = node
                open_names += [*node.input, *node.get_implicit_inputs()]
        return list(nodes.values())

    Graph.extract_sub_graph_nodes = used_nodes
    try:
        yield
    finally:
        Graph.extract_sub_graph_nodes = original


def _attach_weights(graph, weights, specs):
    """Replaces each input that stands for a weight by an initializer named after the weight."""
    from onnx import numpy_helper

    taken, names = {value.name for value in [*graph.input, *graph.output]}, {}
    used = {value.name for value in graph.input}
    for weight, spec in zip(weights, specs, strict=True):
        if spec.name not in used:
            continue
        name, count = weight.path, 1
        while name in taken:
            name, count = f"{weight.path}_{count}", count + 1
        taken.add(name)
        names[spec.name] = name
        # Not `append`, which writes and reads a copy, of less than 2 GiB.
        graph.initializer.add().CopyFrom(numpy_helper.from_array(weight.numpy(), name))
    inputs = [value for value in graph.input if value.name not in names]
    del graph.input[:]
    graph.input.extend(inputs)
    rename_values(graph, names)


@contextlib.contextmanager
def _logged_errors():
    """Collects what tf2onnx logs as errors: it logs a failure and returns a model all the same."""
    messages = []

    class Collector(logging.Handler):
        def emit(self, record):
            error = record.exc_info[1] if record.exc_info else None
            messages.append(record.getMessage() + ("" if error is None else f"\n{error}"))

    collector = Collector(level=logging.ERROR)
    logger = logging.getLogger("tf2onnx")
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
