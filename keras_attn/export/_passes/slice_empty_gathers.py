from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import nested_graphs

if TYPE_CHECKING:
    import onnx


def slice_empty_gathers(model: "onnx.ModelProto") -> None:
    """Replaces `Gather` with an empty constant index by `Slice` from 0 to 0.

    Both operators return a tensor with an axis of size 0. A search has such tensors before its
    first token. OpenVINO reads the empty index of `Gather` as a scalar, removes the axis, and fails
    to load the file.

    Args:
        model: `onnx.ModelProto` with all constants in the main graph; changed in place.
    """
    from onnx import helper, numpy_helper

    empty = {tensor.name for tensor in model.graph.initializer if list(tensor.dims) == [0]}
    added = {}

    def constant(number: int) -> str:
        """Returns the name of an initializer, int64 `(1,)`, with the number."""
        if number not in added:
            added[number] = f"slice_empty_gathers/{number}"
            tensor = numpy_helper.from_array(np.array([number], "int64"), added[number])
            model.graph.initializer.append(tensor)
        return added[number]

    for graph in nested_graphs(model.graph):
        for node in graph.node:
            if node.op_type == "Gather" and node.input[1] in empty:
                axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
                inputs = [node.input[0], constant(0), constant(0), constant(axis)]
                node.CopyFrom(helper.make_node("Slice", inputs, node.output, name=node.name))
