"""How tf2onnx converts `//` and `%` of integers: its own ways round towards zero."""


def _floor_mod(graph, node, name, args):
    """`x % y` with the sign of `y`, which is what ONNX's `Mod` gives of integers."""
    from tf2onnx.onnx_opset.math import FloorMod

    if _is_integer(graph, node):
        node.type = "Mod"
    else:
        FloorMod.version_7(graph, node)


def _floor_div(graph, node, name, args):
    """`x // y` as `(x - x % y) / y`, because ONNX's `Div` of integers rounds towards zero."""
    from tf2onnx.onnx_opset.math import FloorDiv

    if not _is_integer(graph, node):
        FloorDiv.version_6(graph, node)
        return
    (dividend, divisor), outputs = node.input, node.output
    shapes, types = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    rest = graph.make_node("Mod", [dividend, divisor], dtypes=types).output[0]
    multiple = graph.make_node("Sub", [dividend, rest], dtypes=types).output[0]
    graph.make_node(
        "Div", [multiple, divisor], name=name, outputs=outputs, shapes=shapes, dtypes=types
    )


def _is_integer(graph, node):
    from onnx import TensorProto

    floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
    return graph.get_dtype(node.input[0]) not in floats


HANDLERS = {"FloorDiv": (_floor_div, []), "FloorMod": (_floor_mod, [])}
"""The argument `custom_op_handlers` of tf2onnx."""
