from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import all_names, nested_graphs, unused
from keras_attn.export._passes.symbolic_shapes import Sizes, SymbolicShapes
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx


def top_k_of_no_rows(model: "onnx.ModelProto") -> None:
    """Appends a row to a possibly empty input of `TopK`, and removes the row from the results.

    If the input has no rows, `TopK` of ONNX Runtime before 1.31 divides by zero and crashes the
    process. The pass costs a copy of the input, so it is not applied to searches, in which the
    input of `TopK` always has rows. The pass expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    symbolic, types, taken = SymbolicShapes(model), value_types(model), all_names(model)
    for graph in nested_graphs(model.graph):
        nodes = []
        for node in graph.node:
            if node.op_type == "TopK" and _may_be_empty(node, symbolic.shapes.get(node.input[0])):
                nodes += _top_k_with_added_row(model, node, types[node.input[0]], taken)
            else:
                nodes.append(node)
        del graph.node[:]
        graph.node.extend(nodes)


def _may_be_empty(node: "onnx.NodeProto", shape: Sizes | None) -> bool:
    """Returns whether a `TopK` selects along the last axis and its input may have no rows."""
    (axis,) = [attribute.i for attribute in node.attribute if attribute.name == "axis"] or [-1]
    if shape is None:
        return axis == -1
    is_last = axis in (-1, len(shape) - 1)
    return is_last and any(not isinstance(size, int) or size == 0 for size in shape[:-1])


def _top_k_with_added_row(
    model: "onnx.ModelProto", top_k: "onnx.NodeProto", type_: int, taken: set[str]
) -> "list[onnx.NodeProto]":
    """Returns the nodes that replace a `TopK` over the last axis, `(..., T)` to `(..., k)`."""
    from onnx import helper, numpy_helper
    from onnx.helper import make_node

    prefix = unused(f"{top_k.output[0]}/no_rows", taken)
    taken.add(prefix)

    def constant(name: str, array: np.ndarray) -> str:
        full = f"{prefix}/{name}"
        model.graph.initializer.append(numpy_helper.from_array(array, full))
        return full

    first, last = np.array([0]), np.array([-1])
    row = constant("row", np.zeros((1,), helper.tensor_dtype_to_np_dtype(type_)))
    begin, end, one = constant("begin", first), constant("end", last), constant("one", first + 1)
    values, k = top_k.input
    name = prefix + "/{}"
    nodes = [
        make_node("Shape", [values], [name.format("leading")], end=-1),
        make_node("Shape", [values], [name.format("columns")], start=-1),
        make_node("ReduceProd", [name.format("leading")], [name.format("rows")], keepdims=1),
        _concat([name.format("rows"), name.format("columns")], name.format("flat_shape")),
        _reshape(values, name.format("flat_shape"), name.format("flat")),  # (rows, T)
        _concat([one, name.format("columns")], name.format("row_shape")),
        make_node("Expand", [row, name.format("row_shape")], [name.format("zeros")]),  # (1, T)
        _concat([name.format("flat"), name.format("zeros")], name.format("padded")),
    ]
    outputs = [name.format("values"), name.format("indices")]  # (rows + 1, k)
    searched = make_node("TopK", [name.format("padded"), k], outputs)
    searched.attribute.extend(item for item in top_k.attribute if item.name != "axis")
    nodes += [searched, _concat([name.format("leading"), k], name.format("shape"))]
    for output, value in zip(top_k.output, outputs, strict=True):
        if output:
            kept = f"{value}/kept"
            nodes.append(make_node("Slice", [value, begin, end, begin], [kept]))  # (rows, k)
            nodes.append(_reshape(kept, name.format("shape"), output))
    return nodes


def _concat(inputs: Sequence[str], output: str) -> "onnx.NodeProto":
    from onnx import helper

    return helper.make_node("Concat", inputs, [output], axis=0)


def _reshape(value: str, shape: str, output: str) -> "onnx.NodeProto":
    from onnx import helper

    return helper.make_node("Reshape", [value, shape], [output], allowzero=1)
