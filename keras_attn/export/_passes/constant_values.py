"""Computes values that depend only on initializers."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import read_names

if TYPE_CHECKING:
    import onnx


def inputs_of(nodes: "Iterable[onnx.NodeProto]") -> list[str]:
    """Returns the sorted names of all values that `nodes` read."""
    return sorted({name for node in nodes for name in read_names(node)})


def computation(
    name: str, producers: "Mapping[str, onnx.NodeProto]", constants: Container[str]
) -> "list[onnx.NodeProto] | None":
    """Returns the nodes that compute a value from constants, in the order in which they run.

    Returns `None` if the value also depends on other inputs.
    """
    nodes, open_names = [], [name]
    while open_names:
        name = open_names.pop()
        if name in constants or not name:
            continue
        if name not in producers:
            return None
        node = producers[name]
        # If several nodes need this node, it must come before all of them.
        nodes = [node, *(other_node for other_node in nodes if other_node is not node)]
        open_names.extend(inputs_of([node]))
    return nodes


def compute(
    name: str,
    nodes: "Sequence[onnx.NodeProto]",
    tensors: "Sequence[onnx.TensorProto]",
    model: "onnx.ModelProto",
) -> np.ndarray:
    """Runs `nodes` with the initializers `tensors`, and returns the float32 value `name`."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "weights", [], [output], tensors)
    small = helper.make_model(graph, opset_imports=model.opset_import)
    (result,) = ReferenceEvaluator(small).run(None, {})
    return np.asarray(result)
