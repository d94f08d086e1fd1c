from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import all_names, nested_graphs, unused
from keras_attn.export._passes.symbolic_shapes import SymbolicShapes

if TYPE_CHECKING:
    import onnx


def constant_reshapes(model: "onnx.ModelProto") -> None:
    """Replaces computed shapes of Reshape nodes by constant shapes.

    In the traced graph, the sizes of a shape, such as the batch size, are computed in each run. In
    a constant shape of ONNX, 0 means the size of the same axis of the input, and a single -1 means
    the remaining size. `remove_unused` then removes the nodes that computed the sizes.

    Args:
        model: `onnx.ModelProto` with unique names; changed in place.
    """
    from onnx import helper, numpy_helper

    symbolic = SymbolicShapes(model)
    made, taken = {}, all_names(model)
    for graph in nested_graphs(model.graph):
        for node in graph.node:
            if node.op_type != "Reshape":
                continue
            wanted = _constant_shape(node, symbolic)
            if wanted is None:
                continue
            if wanted not in made:
                name = "shape_" + "_".join(str(size) for size in wanted)
                made[wanted] = unused(name, taken)
                array = np.array(wanted, "int64")
                model.graph.initializer.append(numpy_helper.from_array(array, made[wanted]))
            node.input[1] = made[wanted]
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("allowzero", 0))


def _constant_shape(node: "onnx.NodeProto", symbolic: SymbolicShapes) -> tuple[int, ...] | None:
    """Returns the requested shape as numbers, or `None` if numbers cannot express the shape."""
    shape = symbolic.shapes.get(node.input[0], ())
    wanted = symbolic.contents.get(node.input[1])
    if not isinstance(wanted, tuple) or all(isinstance(size, int) for size in wanted):
        return None
    numbers = []
    for axis, size in enumerate(wanted):
        if not isinstance(size, int):
            size = 0 if axis < len(shape) and shape[axis] == size else -1
        elif size == 0:
            return None  # the size is zero, but a constant 0 would mean the size of the input
        numbers.append(size)
    return tuple(numbers) if numbers.count(-1) <= 1 else None
