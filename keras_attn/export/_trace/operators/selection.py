"""Selection between tensors, padding, and updates of slices."""

from collections.abc import Sequence

import numpy as np

from keras_attn._backend.private_names import convert_by_default
from keras_attn.export._trace.operators.replacement import Replacement
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node


def _select(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `where(condition, x, y)` with `Where` of ONNX.

    tf2onnx computes `condition x + (1 - condition) y`, which turns an infinity that is not selected
    into NaN.
    """
    condition_rank, rank = graph.get_rank(node.input[0]), graph.get_rank(node.input[1])
    is_rows = node.type == "Select" and condition_rank == 1 and rank != 1
    shape = [-1]
    if is_rows:
        if rank is None:
            raise ValueError(f"{name} selects rows of a tensor of unknown rank.")
        shape += [1] * (rank - 1)
    new = Replacement(graph, node)
    condition, x, y = new.inputs
    if is_rows:
        condition = new("Reshape", condition, new.constant(shape, "int64"))
    new.result(new.where(condition, x, y))


def _mirror_pad(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Pads with mirrored values.

    The mode `SYMMETRIC` mirrors the edge value too. ONNX lacks this mode, so `Gather` is used.
    """
    if node.get_attr_value("mode") != b"SYMMETRIC":
        node.type = "Pad"
        convert_by_default("Pad", graph, node)
        return
    if not node.inputs[1].is_const():
        raise ValueError(f"{name} pads by sizes that are not constant.")
    sizes = node.inputs[1].get_tensor_value(as_list=False)  # (rank, 2)
    new = Replacement(graph, node)
    value = new.inputs[0]
    shape = new("Shape", value)
    zero, one = new.constant(0, "int64"), new.constant(1, "int64")
    for axis, (before, after) in enumerate(sizes.tolist()):
        if not before and not after:
            continue
        length = new("Gather", shape, new.constant(axis, "int64"))
        stop = new("Add", length, new.constant(after, "int64"))
        positions = new("Range", new.constant(-before, "int64"), stop, one)
        # Positions -1 and -2 become 0 and 1. Positions n and n + 1 become n - 1 and n - 2.
        mirrored = new("Sub", new("Neg", positions), one)
        positions = new("Where", new("Less", positions, zero), mirrored, positions)
        mirrored = new("Sub", new("Sub", new("Add", length, length), one), positions)
        positions = new("Where", new("Less", positions, length), positions, mirrored)
        value = new("Gather", value, positions, axis=axis)
    new.result(value)


def _dynamic_update_slice(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Writes a block into a tensor. The start index is clipped so that the block fits."""
    from onnx import TensorProto

    rank = graph.get_rank(node.input[0])
    if rank is None or graph.get_rank(node.input[1]) != rank:
        raise ValueError(f"{name} updates a slice of a tensor of unknown rank.")
    new = Replacement(graph, node)
    value, block, start = new.inputs
    shape, block_shape = new("Shape", value), new("Shape", block)
    start = new("Reshape", new.cast(start, TensorProto.INT64), new.constant([-1], "int64"))
    start = new("Max", start, new.constant([0] * rank, "int64"))
    start = new("Min", start, new("Sub", shape, block_shape))
    # The index of each element of the block, (*block, rank).
    one = new.constant(1, "int64")
    full = new("Concat", block_shape, new.constant([1], "int64"), axis=0)
    parts = []
    for axis in range(rank):
        position = new.constant(axis, "int64")
        first, length = (new("Gather", sizes, position) for sizes in (start, block_shape))
        places = new("Range", first, new("Add", first, length), one)
        sizes = np.ones(rank + 1, "int64")
        sizes[axis] = -1
        places = new("Reshape", places, new.constant(sizes, "int64"))
        parts.append(new("Expand", places, full))
    new.result(new("ScatterND", value, new("Concat", *parts, axis=-1), block))


def _one_hot(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Creates one-hot vectors. A negative index gives zeros, unlike in `OneHot` of ONNX."""
    from onnx import TensorProto

    axis = node.get_attr_value("axis", -1)
    rank = graph.get_rank(node.input[0])
    if rank is None:
        raise ValueError(f"{name} encodes indices of unknown rank.")
    new = Replacement(graph, node)
    indices, depth, on, off = new.inputs
    axis = rank if axis == -1 else axis
    zero, one = new.constant(0, "int64"), new.constant(1, "int64")
    classes = new("Range", zero, new.cast(depth, TensorProto.INT64), one)
    if axis != rank:
        sizes = np.ones(rank + 1, "int64")
        sizes[axis] = -1
        classes = new("Reshape", classes, new.constant(sizes, "int64"))
    indices = new.cast(indices, TensorProto.INT64)
    indices = new("Unsqueeze", indices, new.constant([axis], "int64"))
    new.result(new.where(new("Equal", indices, classes), on, off))


def _scatter_nd(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Adds updates to a tensor of zeros.

    Updates with the same index are summed. (tf2onnx would keep only one of these updates.)
    """
    from onnx import TensorProto, helper

    new = Replacement(graph, node)
    indices, updates, shape = new.inputs
    if new.numpy_dtype.kind == "b":
        raise ValueError(f"{name} adds values of dtype bool, which ONNX cannot do.")
    zero = helper.make_tensor("value", new.dtype, [1], [0])
    zeros = new("ConstantOfShape", new.cast(shape, TensorProto.INT64), value=zero)
    indices = new.cast(indices, TensorProto.INT64)
    new.result(new("ScatterND", zeros, indices, updates, reduction="add"))


def _resize(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Resizes images to a size.

    A constant size is wrapped in an `Identity` node, because tf2onnx would replace it by a rounded
    scale. With a scale of 5 / 6, six pixels would become four or five pixels, depending on the
    runtime.
    """
    if node.type == "ResizeArea":
        raise ValueError(f"{name} averages over areas, which ONNX cannot do. Use another method.")
    if node.inputs[1].is_const():
        graph.insert_new_node_on_input(node, "Identity", node.input[1])
    convert_by_default("Resize", graph, node)


HANDLERS: Handlers = {
    "MirrorPad": (_mirror_pad, []),
    "OneHot": (_one_hot, []),
    "ResizeArea": (_resize, []),
    "ResizeBicubic": (_resize, []),
    "ResizeBilinear": (_resize, []),
    "ResizeNearestNeighbor": (_resize, []),
    "ScatterNd": (_scatter_nd, []),
    "Select": (_select, []),
    "SelectV2": (_select, []),
    "XlaDynamicUpdateSlice": (_dynamic_update_slice, []),
}
