"""ONNX models with a few nodes, in textual form, and their results."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, type_=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, type_, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def graph(nodes, inputs, outputs, initializers=(), name="graph"):
    return helper.make_graph(nodes, name, inputs, outputs, list(initializers))


def model(*arguments, **keywords):
    made = helper.make_model(
        graph(*arguments, **keywords), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    onnx.checker.check_model(made)
    return made


def run(made, **inputs):
    onnx.checker.check_model(made, full_check=True)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def product_body():
    """Returns the body of a loop that multiplies its state by `weight` in each iteration."""
    return graph(
        [node("Identity", "c", "c_out"), node("MatMul", "h weight", "h_out")],
        [value("i", INT64, []), value("c", BOOL, []), value("h")],
        [value("c_out", BOOL, []), value("h_out")],
        name="body",
    )


def loop_bodies(made):
    """Returns the body of each Loop, outer loops first."""
    from keras_attn.export._passes.graph import nested_graphs

    return [
        each.attribute[0].g
        for inner in nested_graphs(made.graph)
        for each in inner.node
        if each.op_type == "Loop"
    ]


def all_initializers(made):
    from keras_attn.export._passes.graph import nested_graphs

    return [tensor for inner in nested_graphs(made.graph) for tensor in inner.initializer]


def assert_no_weights_in_loops(made):
    """Checks that no Loop contains a constant or carries a value that it does not change."""
    from keras_attn.export._passes.graph import nested_graphs

    constants = {tensor.name: tensor for tensor in all_initializers(made)}
    for graph in nested_graphs(made.graph):
        copies = {
            node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"
        }
        for node in graph.node:
            if node.op_type != "Loop":
                continue
            (body,) = (attribute.g for attribute in node.attribute)
            behind = {each.output[0]: each.input[0] for each in body.node if len(each.input) == 1}
            for index in range(len(body.input) - 2):
                start, end = node.input[2 + index], body.output[1 + index].name
                while start in copies:
                    start = copies[start]
                while end in behind:
                    end = behind[end]
                assert end != body.input[2 + index].name, f"{start} is carried unchanged"
                assert start not in constants or np.prod(constants[start].dims) < 8


def operators(graph_):
    return [each.op_type for each in graph_.node]


def optimized_operators(made, directory):
    """Returns the operators of all graphs of a model after optimization by ONNX Runtime."""
    from keras_attn.export._passes.graph import nested_graphs

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(directory / "optimized.onnx")
    onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    optimized = onnx.load(options.optimized_model_filepath)
    return [each for inner in nested_graphs(optimized.graph) for each in operators(inner)]
