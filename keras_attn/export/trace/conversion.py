import contextlib
import logging
import threading

import keras

from keras_attn.export.export_error import ExportError
from keras_attn.export.passes.graph import rename_values
from keras_attn.export.trace import einsum_products, integer_division, operators, recurrent_operator

OPSET = 18
"""The newest opset tf2onnx writes, and the newest whose Loop, TopK and LSTM all have CUDA kernels
in ONNX Runtime."""


HANDLERS = {
    **recurrent_operator.HANDLERS,
    **integer_division.HANDLERS,
    **einsum_products.HANDLERS,
    **operators.HANDLERS,
}
"""Functions that convert TensorFlow operators which tf2onnx converts wrongly or not at all, by the
name of the operator: the argument `custom_op_handlers` of tf2onnx."""

# What changes tf2onnx while it works is there for all threads.
_LOCK = threading.Lock()


def convert(function, signature, weights):
    """Converts a function of tensors to an ONNX model with one initializer a weight.

    tf2onnx copies and serialises the graph for each of its optimizers. So the weights are kept
    out of the graph while it works: the function is traced with the weights as further inputs,
    and those inputs become initializers afterwards.

    Args:
        function: callable that takes the tensors of `signature` in this order and returns a
            dictionary from output name to tensor. It may use any of `weights`. Other tensors that
            it reads become constants.
        signature: list of `tf.TensorSpec`, each with a name: the inputs of the ONNX model.
        weights: list of `keras.Variable`: all variables that `function` reads, the states of
            random generators included.

    Returns:
        An `onnx.ModelProto` of opset 18. Its outputs are in the order of the function's.

    Raises:
        ExportError: tf2onnx reported an operator or a construct that it cannot convert (it would
            go on and return an invalid model), or the function reads a variable that is not among
            `weights`, or an output is named like an input.
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
    given_names = [*input_names, *(spec.name for spec in weight_specs)]
    model = _to_onnx(concrete, given_names, output_names, _captured(concrete))
    _attach_weights(model.graph, weights, weight_specs)
    left_over = [value.name for value in model.graph.input if value.name not in input_names]
    if left_over:
        raise ExportError(
            "Expected a function of its inputs, its weights and constants only. "
            f"Received: a function that also reads {left_over}. Make these variables weights of a "
            "layer of the model."
        )
    return model


def _captured(concrete):
    """Dictionary from the name of a graph input to the constant tensor that it stands for.

    TensorFlow makes an input of each eager tensor that a function reads, such as the operand of
    `x * keras.ops.convert_to_tensor([1.0, 2.0])`, unless it is very small.
    """
    import tensorflow as tf

    return {
        placeholder.op.name: value.numpy()
        for value, placeholder in concrete.graph.captures
        if isinstance(value, tf.Tensor) and value.dtype not in (tf.resource, tf.variant, tf.string)
    }


def _to_onnx(concrete, input_names, output_names, constants):
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
            frozen = _inline_compiled(frozen, tensor_names, result_names)
            _insert_constants(frozen, constants)
            tensor_names = [name for name in tensor_names if name.split(":")[0] not in constants]
            with tf.Graph().as_default() as tf_graph:
                tf.import_graph_def(frozen, name="")
                graph = tfonnx.process_tf_graph(
                    tf_graph,
                    continue_on_error=True,
                    opset=OPSET,
                    custom_op_handlers=HANDLERS,
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
        raise ExportError(
            "tf2onnx could not convert the model:\n" + "\n".join(errors) + "\nReplace these "
            "operations by others of keras.ops. docs/exported_operations.md lists those that are "
            "exported."
        )
    return model


def _inline_compiled(graph_def, input_names, output_names):
    """Inlines functions with `jit_compile=True`, such as Keras' convolutions with groups."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    functions = graph_def.library.function
    nodes = [*graph_def.node, *(node for function in functions for node in function.node_def)]
    if not any(node.op in ("PartitionedCall", "StatefulPartitionedCall") for node in nodes):
        return graph_def
    for holder in (*nodes, *functions):
        for attribute in ("_XlaMustCompile", "_noinline"):
            if attribute in holder.attr:
                del holder.attr[attribute]
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        meta_graph = tf.compat.v1.train.export_meta_graph(graph_def=graph_def)
    fetched = meta_graph_pb2.CollectionDef()
    fetched.node_list.value.extend([*input_names, *output_names])
    meta_graph.collection_def["train_op"].CopyFrom(fetched)
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.optimizers.append("function")
    options.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    return tf_optimizer.OptimizeGraph(config, meta_graph)


def _insert_constants(graph_def, constants):
    """Replaces inputs of a `GraphDef` by constants, in place; `constants` is a dict of arrays."""
    import tensorflow as tf

    for node in graph_def.node:
        if node.name in constants:
            value = constants[node.name]
            node.op = "Const"
            node.attr.clear()
            node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))


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
