from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

from keras_attn.export._passes.graph import copy_of, nested_graphs
from keras_attn.export._passes.symbolic_shapes import Sizes, SymbolicShapes
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx


def gather_integers(model: "onnx.ModelProto") -> None:
    """Replaces `GatherND` of int32 tensors, for which ONNX Runtime has no CUDA kernel.

    A node that selects columns of each row becomes `GatherElements`, which has a CUDA kernel for
    all types. In all other cases, int32 tensors are converted to int64, gathered, and converted
    back. Both cases occur in every step of a search, because token ids are int32. The pass expects
    unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import TensorProto, helper

    shapes, types = SymbolicShapes(model).shapes, value_types(model)
    graphs = list(nested_graphs(model.graph))
    producers = {name: node for graph in graphs for node in graph.node for name in node.output}
    for graph in reversed(graphs):  # inner graphs first, because outer graphs copy them
        nodes = []
        for original in graph.node:
            node = copy_of(original)
            nodes.append(node)
            if node.op_type != "GatherND":
                continue
            (data, indices), (result,) = node.input, node.output
            batch_axes = node.attribute[0].i if node.attribute else 0
            unsqueeze = producers.get(indices)
            if batch_axes == 1 and len(shapes.get(data, ())) == 2 and _is_column(unsqueeze, shapes):
                gather = "GatherElements", [data, unsqueeze.input[0]], [result]
                nodes[-1] = helper.make_node(*gather, axis=1)
            elif types[data] == TensorProto.INT32:
                long, gathered = f"{result}/int64", f"{result}/gathered"
                node.input[0], node.output[0] = long, gathered
                nodes[-1:] = [
                    helper.make_node("Cast", [data], [long], to=TensorProto.INT64),
                    node,
                    helper.make_node("Cast", [gathered], [result], to=TensorProto.INT32),
                ]
        del graph.node[:]
        graph.node.extend(nodes)


def _is_column(
    node: "onnx.NodeProto | None", shapes: Mapping[str, Sizes]
) -> "TypeGuard[onnx.NodeProto]":
    """Returns whether a node only appends an axis to indices `(rows, columns)`."""
    return (
        node is not None
        and node.op_type == "Unsqueeze"
        and len(shapes.get(node.input[0], ())) == 2
        and shapes.get(node.output[0], ())[2:] == (1,)
    )
