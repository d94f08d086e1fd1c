from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.symbolic_shapes import SymbolicShapes

if TYPE_CHECKING:
    import onnx

REDUCTIONS = ("Reduce", "Arg")
"""Prefixes of the names of all operators that reduce axes."""


def nonnegative_axes(model: "onnx.ModelProto") -> None:
    """Converts axes of reductions to non-negative numbers, if the rank is known.

    If a tensor is empty, ONNX Runtime before 1.31 does not reduce a negative axis: the result has
    the shape of the input. A mean that is part of a normalization keeps its axis -1, because ONNX
    Runtime recognizes normalizations by this axis. In a normalization, the wrong shape has no
    effect, because the mean is broadcast to the shape of the input. The pass expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    symbolic = SymbolicShapes(model)
    graphs = list(nested_graphs(model.graph))
    constants = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    readers, results = {}, {value.name for graph in graphs for value in graph.output}
    for graph in graphs:
        for node in graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node.op_type)

    def normalizes(node: "onnx.NodeProto") -> bool:
        read_by = set(readers.get(node.output[0], []))
        is_mean = node.op_type == "ReduceMean" and _attribute(node, "keepdims", 1) != 0
        return is_mean and node.output[0] not in results and read_by <= {"Sub", "Add"}

    for graph in graphs:
        for node in graph.node:
            shape = symbolic.shapes.get(node.input[0]) if node.input else None
            if shape is None or not node.op_type.startswith(REDUCTIONS) or normalizes(node):
                continue
            for attribute in node.attribute:
                if attribute.name == "axis":  # of ArgMax and ArgMin
                    attribute.i %= len(shape)
            tensor = constants.get(node.input[1]) if len(node.input) > 1 else None
            if tensor is not None and tensor.data_type == tensor.INT64:
                axes = numpy_helper.to_array(tensor)
                if (axes < 0).any():
                    node.input[1] = _constant(model, constants, axes % len(shape))


def _attribute(node: "onnx.NodeProto", name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _constant(
    model: "onnx.ModelProto", constants: "dict[str, onnx.TensorProto]", axes: np.ndarray
) -> str:
    """Returns the name of an initializer with the given axes; adds it to the main graph if needed.

    `constants` is the dict of the existing initializers.
    """
    from onnx import numpy_helper

    name = "nonnegative_axes/" + "_".join(map(str, axes.tolist()))
    if name not in constants:
        constants[name] = numpy_helper.from_array(axes, name)
        model.graph.initializer.append(constants[name])
    return name
