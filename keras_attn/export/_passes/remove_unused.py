from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import drop_initializers, read_names, subgraphs

if TYPE_CHECKING:
    import onnx


def remove_unused(model: "onnx.ModelProto") -> None:
    """Removes nodes and initializers whose values are not read.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _remove_nodes(model.graph)
    read = _read_by(model.graph)
    drop_initializers(model.graph, {tensor.name for tensor in model.graph.initializer} - read)


def _remove_nodes(graph: "onnx.GraphProto") -> None:
    read = {value.name for value in graph.output}
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if read.isdisjoint(node.output):
            del graph.node[index]
            continue
        for inner in subgraphs(node):
            _remove_nodes(inner)
        read |= read_names(node)


def _read_by(graph: "onnx.GraphProto") -> set[str]:
    names = {value.name for value in graph.output}
    for node in graph.node:
        names |= read_names(node)
    return names
