from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import (
    copy_of,
    nested_graphs,
    read_names,
    rename_values,
    return_own_values,
    subgraphs,
)
from keras_attn.export._passes.symbolic_shapes import ELEMENTWISE, REDUCTIONS
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx

# Deterministic operators that cannot fail for any values of inputs with valid shapes and types.
_ALWAYS = (
    (ELEMENTWISE - {"Div", "Mod"})
    | (REDUCTIONS - {"ReduceMax", "ReduceMin"})
    | {"Concat", "MatMul", "Range", "Shape", "Slice", "Transpose", "Unsqueeze"}
)
# Operators whose results count as sizes if all their inputs are constants or sizes.
_SIZE_OPERATORS = set(
    """
    Add Cast Concat ConstantOfShape Expand Gather Identity Max Min Mul Range ReduceProd ReduceSum
    Shape Slice Squeeze Unsqueeze
    """.split()
)


def hoist_invariants(model: "onnx.ModelProto") -> None:
    """Moves loop invariants out of every Loop.

    tf2onnx converts each tensor that a loop body reads, including weights, to a state of the loop.
    If the body returns a state unchanged (directly, through Identity nodes or through an inner
    loop), this pass replaces the state by the value outside of the loop. Nodes that depend only on
    values outside of the loop then move before the loop. Without this pass, a runtime could not
    prepack or quantize the weights of a decoder.

    A node that was moved out of a loop runs even if the loop has zero iterations. Such a node must
    not fail, for instance because an index is out of range. Therefore a node that may fail is moved
    only if all its inputs are constants, or computed from tensor shapes. The pass expects that
    names are unique, and that all constants are in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _replace_loops(model.graph, lambda loop: [loop, *_capture_unchanged_states(loop)])
    safe = _cannot_fail(model)
    _replace_loops(model.graph, lambda loop: [*_take_invariant_nodes(loop, safe), loop])


def _replace_loops(
    graph: "onnx.GraphProto", replace: "Callable[[onnx.NodeProto], list[onnx.NodeProto]]"
) -> None:
    """Replaces each Loop by the nodes that `replace` returns."""
    nodes = []
    for original in graph.node:
        node = copy_of(original)
        # Inner loops first: a node that leaves an inner loop may also leave the outer loop.
        for inner in subgraphs(node):
            _replace_loops(inner, replace)
        nodes.extend(replace(node) if node.op_type == "Loop" else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _capture_unchanged_states(loop: "onnx.NodeProto") -> "list[onnx.NodeProto]":
    """Removes unchanged states; returns nodes that define the removed outputs of the loop."""
    from onnx import helper

    body = loop.attribute[0].g
    states = len(body.input) - 2  # the first two inputs are the iteration number and the condition
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    unchanged = []
    for index in range(states):
        name = body.output[1 + index].name
        while name in sources:
            name = sources[name]
        if name in (body.input[2 + index].name, loop.input[2 + index]):
            unchanged.append(index)
    names, after = {}, []
    for index in reversed(unchanged):
        outside = loop.input.pop(2 + index)
        names[body.input.pop(2 + index).name] = outside
        body.output.pop(1 + index)
        result = loop.output.pop(index)
        if result:
            after.append(helper.make_node("Identity", [outside], [result]))
    rename_values(body, names)
    return_own_values(body)
    return after


def _cannot_fail(model: "onnx.ModelProto") -> set[str]:
    """Returns the names of values whose computation cannot fail for any input of the model."""
    from onnx import TensorProto

    types = value_types(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    sizes, safe = set(constants), set()
    for graph in nested_graphs(model.graph):
        for node in graph.node:
            read = read_names(node)
            is_fraction = node.op_type == "Div" and types[node.output[0]] == TensorProto.FLOAT
            is_constant = read <= constants and not list(subgraphs(node))
            is_size = node.op_type == "Shape" or read <= sizes and node.op_type in _SIZE_OPERATORS
            if is_size:
                sizes.update(node.output)
            if node.op_type in _ALWAYS or is_fraction or is_constant or is_size:
                safe.update(node.output)
    return safe


def _take_invariant_nodes(loop: "onnx.NodeProto", safe: set[str]) -> "list[onnx.NodeProto]":
    """Removes the nodes that do not depend on values of the loop body, and returns them in order.

    A node is removed only if all its results are in `safe`.
    """
    body = loop.attribute[0].g
    varying = {value.name for value in body.input}
    taken, kept = [], []
    for original in body.node:
        node = copy_of(original)
        if not safe.issuperset(node.output) or read_names(node) & varying:
            varying.update(node.output)
            kept.append(node)
        else:
            taken.append(node)
    del body.node[:]
    body.node.extend(kept)
    return_own_values(body)
    return taken
