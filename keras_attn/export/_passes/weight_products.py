"""Replaces matrix products with weights, for the passes that store weights in fewer bits.

The passes only replace products of a tensor and a constant weight. Products of two tensors that
both depend on the input, as in attention, remain in float32. LSTM and GRU nodes and convolutions
also remain in float32.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from keras_attn.export._passes.constant_values import computation, compute, inputs_of
from keras_attn.export._passes.graph import copy_of, nested_graphs
from keras_attn.export._passes.remove_unused import remove_unused

if TYPE_CHECKING:
    import onnx


Made: TypeAlias = dict[str, Sequence[str]]
Replace: TypeAlias = (
    "Callable[[onnx.NodeProto, onnx.GraphProto, Made], list[onnx.NodeProto] | None]"
)


def replace_products(
    model: "onnx.ModelProto",
    nodes_of_product: Replace,
) -> None:
    """Replaces `MatMul` nodes by other nodes, and removes values that are no longer used.

    Args:
        model: `onnx.ModelProto` with unique names; changed in place.
        nodes_of_product: Function `(product, graph, made)`. `product` is the `MatMul` node. `graph`
            is the graph of this node; the function may add constants to it. `made` is a dict, the
            same for all products of a graph, in which the function can store values that several
            products share. The function returns the list of new nodes, or `None` to keep the
            product.
    """
    graphs = list(nested_graphs(model.graph))
    for graph in reversed(graphs):  # inner graphs first, because outer graphs copy them
        nodes, made = [], {}
        for node in graph.node:
            replacing = nodes_of_product(node, graph, made) if node.op_type == "MatMul" else None
            nodes.extend([copy_of(node)] if replacing is None else replacing)
        del graph.node[:]
        graph.node.extend(nodes)
    remove_unused(model)


def constant_matrices(model: "onnx.ModelProto") -> Callable[[str], np.ndarray | None]:
    """Returns a function that looks up constant float32 matrices by name.

    Args:
        model: `onnx.ModelProto` with unique names and all constants in the main graph.

    Returns:
        Function that takes the name of a value and returns an array `(inputs, outputs)`, or `None`
        if the value is not a constant float32 matrix.
    """
    from onnx import numpy_helper

    graphs = nested_graphs(model.graph)
    producers = {name: node for graph in graphs for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def matrix_of(name: str) -> np.ndarray | None:
        nodes = computation(name, producers, constants)
        if nodes is None:
            return None
        used = [constants[value] for value in inputs_of(nodes) if value in constants]
        array = compute(name, nodes, used, model) if nodes else None
        array = numpy_helper.to_array(constants[name]) if array is None else array
        return array if array.ndim == 2 and array.dtype == "float32" else None

    return matrix_of
