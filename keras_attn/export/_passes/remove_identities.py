from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import copy_of, nested_graphs, rename_values
from keras_attn.export._passes.symbolic_shapes import UNLIMITED

if TYPE_CHECKING:
    import onnx


def remove_identities(model: "onnx.ModelProto") -> None:
    """Removes nodes that return their input unchanged.

    These are Identity nodes, and Slice nodes that select all elements. (tf2onnx creates such Slice
    nodes for `x[:, None]`.) A node whose result is an output of its graph remains, because a graph
    must compute its own outputs. The pass expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def takes_everything(node: "onnx.NodeProto") -> bool:
        """Returns whether a Slice selects all elements of each axis."""
        if node.op_type != "Slice" or any(
            name and name not in constants for name in node.input[1:]
        ):
            return False
        starts, ends, *axes_and_steps = (
            numpy_helper.to_array(constants[name]) if name else np.array(1)
            for name in node.input[1:]
        )
        steps = axes_and_steps[1:]
        return bool(
            not starts.any()
            and (ends >= UNLIMITED).all()
            and all((step == 1).all() for step in steps)
        )

    names = {}
    for graph in nested_graphs(model.graph):
        outputs = {value.name for value in graph.output}
        kept = []
        for node in graph.node:
            second_name = node.op_type == "Identity" or takes_everything(node)
            if second_name and node.output[0] not in outputs:
                names[node.output[0]] = node.input[0]
            else:
                kept.append(copy_of(node))
        if len(kept) < len(graph.node):
            del graph.node[:]
            graph.node.extend(kept)
    for name in names:
        while names[name] in names:
            names[name] = names[names[name]]
    rename_values(model.graph, names)
