import hashlib
from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import (
    copy_of,
    drop_initializers,
    nested_graphs,
    rename_values,
    return_own_values,
)

if TYPE_CHECKING:
    import onnx


def share_initializers(model: "onnx.ModelProto") -> None:
    """Keeps one copy of each constant in the main graph, where all graphs can read it.

    Constants of subgraphs move to the main graph, Constant nodes become initializers, and equal
    initializers (same type, shape and bytes, such as tied embeddings or repeated scalars) are
    merged. The pass expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    main = model.graph
    moved = []
    for graph in nested_graphs(main):
        if graph is not main:
            moved.extend(map(copy_of, graph.initializer))
            del graph.initializer[:]
        moved.extend(_take_constant_nodes(graph))
    for tensor in moved:
        main.initializer.add().CopyFrom(tensor)  # `extend` fails for tensors of 2 GiB or more
    first, names = {}, {}
    returned = {value.name for value in main.output}
    for tensor in main.initializer:
        array = numpy_helper.to_array(tensor)
        content = array.astype(object).astype(str) if array.dtype == object else array
        key = (tensor.data_type, array.shape, hashlib.sha256(content.tobytes()).digest())
        if key in first and tensor.name not in returned:
            names[tensor.name] = first[key]
        else:
            first.setdefault(key, tensor.name)
    drop_initializers(main, names)
    rename_values(main, names)
    for graph in nested_graphs(main):
        if graph is not main:
            return_own_values(graph)


def _take_constant_nodes(graph: "onnx.GraphProto") -> "list[onnx.TensorProto]":
    """Removes the Constant nodes of one graph and returns their tensors."""
    tensors, nodes = [], []
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            tensor = copy_of(node.attribute[0].t)
            tensor.name = node.output[0]
            tensors.append(tensor)
        else:
            nodes.append(copy_of(node))
    if tensors:
        del graph.node[:]
        graph.node.extend(nodes)
    return tensors
