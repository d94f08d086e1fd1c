from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.symbolic_shapes import SymbolicShapes

if TYPE_CHECKING:
    import onnx


def remove_tensordot_reshapes(model: "onnx.ModelProto") -> None:
    """Removes the Reshape nodes before and after the product of a tensor and a matrix.

    `tensordot` of TensorFlow reshapes the tensor to a matrix, multiplies, and reshapes the result:
    Reshape, MatMul, Reshape. MatMul of ONNX accepts tensors of any rank.

    Args:
        model: `onnx.ModelProto` with unique names; changed in place.
    """
    symbolic = SymbolicShapes(model)
    graphs = list(nested_graphs(model.graph))
    producers = {name: node for graph in graphs for node in graph.node for name in node.output}
    for graph in graphs:
        for node in graph.node:
            product = producers.get(node.input[0]) if node.op_type == "Reshape" else None
            if product is None or product.op_type != "MatMul":
                continue
            flat = producers.get(product.input[0])
            if flat is None or flat.op_type != "Reshape":
                continue
            tensor, matrix = flat.input[0], product.input[1]
            left, right, result = (
                symbolic.shapes.get(name) for name in (tensor, matrix, node.output[0])
            )
            if left is None or right is None or len(right) != 2:
                continue
            if left[-1] == right[0] and result == (*left[:-1], right[1]):
                node.op_type = "MatMul"
                del node.attribute[:]
                node.input[:] = [tensor, matrix]
