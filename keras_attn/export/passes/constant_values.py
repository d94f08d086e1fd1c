"""Computes values that depend only on initializers."""

from typing import TYPE_CHECKING, Any

from keras_attn.export.passes.graph import read_names

if TYPE_CHECKING:
    import onnx


def inputs_of(nodes: Any) -> Any:
    """Returns the sorted names of all values that `nodes` read."""
    return sorted({name for node in nodes for name in read_names(node)})


def computation(name: str, producers: Any, constants: Any) -> Any:
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
        nodes = [node, *(each for each in nodes if each is not node)]
        open_names.extend(inputs_of([node]))
    return nodes


def compute(name: str, nodes: Any, tensors: Any, model: "onnx.ModelProto") -> Any:
    """Runs `nodes` with the initializers `tensors`, and returns the float32 value `name`."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "weights", [], [output], tensors)
    small = helper.make_model(graph, opset_imports=model.opset_import)
    results: Any = ReferenceEvaluator(small).run(None, {})
    return results[0]
