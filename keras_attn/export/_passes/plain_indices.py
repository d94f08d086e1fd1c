from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.remove_unused import remove_unused
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx

TAKE_INT32 = ("Gather", "GatherElements")


def plain_indices(model: "onnx.ModelProto") -> None:
    """Removes conversions of indices between integer types.

    TensorFlow uses int32 indices, and ONNX uses int64 indices. Therefore the results of `TopK` are
    converted to int32, and then to the required type, which is int64 for gathers. This pass removes
    the conversion to int32. It also removes the conversion to int64 before `Gather` and
    `GatherElements`, which accept int32. Each conversion would be an operator in every step of a
    search. The pass expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import TensorProto

    types = value_types(model)
    nodes = [node for graph in nested_graphs(model.graph) for node in graph.node]
    producers = {name: node for node in nodes for name in node.output}

    def before_cast(name: str, to: int) -> str | None:
        """Returns the input of the Cast to type `to` that computes a value, otherwise `None`."""
        node = producers.get(name)
        if node is None or node.op_type != "Cast" or node.attribute[0].i != to:
            return None
        return node.input[0]

    index_names = {node.output[1] for node in nodes if node.op_type == "TopK"}
    for node in nodes:
        if node.op_type == "Cast":
            indices = before_cast(node.input[0], TensorProto.INT32)
            if indices is not None and indices in index_names:
                node.input[0] = indices
    for node in nodes:
        for position, name in enumerate(node.input):
            indices = before_cast(name, TensorProto.INT64)
            takes_int32 = node.op_type in TAKE_INT32 and position == 1
            accepted = (TensorProto.INT64, *([TensorProto.INT32] if takes_int32 else []))
            if indices is not None and types.get(indices) in accepted:
                node.input[position] = indices
    remove_unused(model)
