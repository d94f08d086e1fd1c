"""Binary search, membership of the top k, band matrices and segment reductions."""

from collections.abc import Sequence

import numpy as np

from keras_attn._backend.private_names import convert_by_default
from keras_attn.export._trace.operators.replacement import Replacement
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node


def _bucketize(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Returns, for each value, the number of boundaries that are at most the value."""
    boundaries = np.array(node.get_attr("boundaries").floats, "float32")
    dtype = graph.get_dtype(node.input[0])
    new = Replacement(graph, node)
    values = new("Unsqueeze", new.inputs[0], new.constant([-1], "int64"))  # (..., 1)
    reached = new("GreaterOrEqual", values, new.cast(new.constant(boundaries, "float32"), dtype))
    new.result(_count(new, reached))


def _lower_bound(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Counts the sorted values `(rows, length)` that are less than each query `(rows, number)`."""
    _bound(graph, node, "Less")


def _upper_bound(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Counts the sorted values `(rows, length)` that are at most each query `(rows, number)`."""
    _bound(graph, node, "LessOrEqual")


def _bound(graph: Graph, node: Node, comparison: str) -> None:
    new = Replacement(graph, node)
    ordered = new("Unsqueeze", new.inputs[0], new.constant([1], "int64"))  # (B, 1, L)
    values = new("Unsqueeze", new.inputs[1], new.constant([2], "int64"))  # (B, N, 1)
    new.result(_count(new, new(comparison, ordered, values)))


def _count(new: Replacement, condition: str) -> str:
    """Counts the true values along the last axis, in the dtype of the result."""
    ones = new.cast(condition, new.dtype)
    return new("ReduceSum", ones, new.constant([-1], "int64"), keepdims=0)


def _in_top_k(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Returns whether fewer than k predictions `(B, C)` exceed the target's prediction `(B,)`.

    As in TensorFlow, the result is false for a row with infinities or NaN, and for a target out of
    range.
    """
    from onnx import TensorProto

    new = Replacement(graph, node)
    predictions, targets, k = new.inputs
    targets, k = new.cast(targets, TensorProto.INT64), new.cast(k, TensorProto.INT64)
    zero, one, last = (new.constant(value, "int64") for value in (0, 1, [-1]))
    classes = new("Gather", new("Shape", predictions), one)
    in_range = new("And", new("GreaterOrEqual", targets, zero), new("Less", targets, classes))
    index = new("Max", new("Min", targets, new("Sub", classes, one)), zero)
    of_target = new("GatherElements", predictions, new("Unsqueeze", index, last), axis=1)

    def number(condition: str) -> str:
        ones = new.cast(condition, TensorProto.INT64)
        return new("ReduceSum", ones, last, keepdims=0)

    above = new("Less", number(new("Greater", predictions, of_target)), k)
    odd = new("Or", new("IsNaN", predictions), new("IsInf", predictions))
    is_usual = new("Equal", number(odd), zero)
    new.result(new("And", new("And", above, is_usual), in_range))


def _band_part(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Sets elements outside of a band around the diagonal to zero.

    tf2onnx multiplies by 0 and 1, which turns infinities outside of the band into NaN.
    """
    from onnx import TensorProto

    bounds: list[int] = [item.get_tensor_value() for item in node.inputs[1:] if item.is_const()]
    if len(bounds) < 2:
        raise ValueError(f"{name} has a band whose width is not constant.")
    new = Replacement(graph, node)
    value, (lower, upper) = new.inputs[0], bounds
    # `Trilu` of ONNX Runtime supports few types. Tensors of other types are converted to a wider
    # type, which loses no bits.
    wide: dict[int, int] = {
        TensorProto.FLOAT16: TensorProto.FLOAT,
        TensorProto.BFLOAT16: TensorProto.FLOAT,
        TensorProto.UINT32: TensorProto.INT64,
        TensorProto.UINT64: TensorProto.INT64,
    }
    has_kernel = (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.BOOL,
    )
    if new.dtype not in has_kernel:
        value = new.cast(value, wide.get(new.dtype, TensorProto.INT32))
    if lower >= 0:
        value = new("Trilu", value, new.constant(-lower, "int64"), upper=1)
    if upper >= 0:
        value = new("Trilu", value, new.constant(upper, "int64"), upper=0)
    new.result(value if new.dtype in has_kernel else new.cast(value, new.dtype))


# From a reduction to the `reduction` of ScatterND, and a function from a dtype to the start value.
_NUMBERS = {
    "Sum": ("add", lambda dtype: 0),
    "Prod": ("mul", lambda dtype: 1),
    "Max": ("max", lambda dtype: _limits(dtype).min),
    "Min": ("min", lambda dtype: _limits(dtype).max),
}


def _limits(dtype: np.dtype) -> np.finfo | np.iinfo:
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


def _segments(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Reduces the rows of each segment. Rows with a negative segment number are ignored."""
    from onnx import TensorProto, helper

    reduction, start = _NUMBERS[node.type.removeprefix("UnsortedSegment")]
    rank = graph.get_rank(node.input[1])
    if rank is None:
        raise ValueError(f"{name} has segments of unknown rank.")
    new = Replacement(graph, node)
    data, segments, number = new.inputs
    segments, number = new.cast(segments, TensorProto.INT64), new.cast(number, TensorProto.INT64)
    zero, one = new.constant(0, "int64"), new.constant([1], "int64")
    # An additional segment collects the rows with negative numbers, and is removed at the end.
    negative = new("Less", segments, zero)
    segments = new("Where", negative, number, segments)
    number = new("Reshape", number, one)
    sizes = new("Concat", new("Add", number, one), _shape_after(new, data, rank), axis=0)
    value = helper.make_tensor("value", new.dtype, [1], [start(new.numpy_dtype)])
    empty = new("ConstantOfShape", sizes, value=value)
    indices = new("Unsqueeze", segments, new.constant([-1], "int64"))
    sums = new("ScatterND", empty, indices, data, reduction=reduction)
    new.result(new("Slice", sums, new.constant([0], "int64"), number))


def _shape_after(new: Replacement, value: str, axis: int) -> str:
    sizes = new("Shape", value)
    return new("Slice", sizes, new.constant([axis], "int64"), new.constant([2**31], "int64"))


def _ctc_greedy_decoder(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Raises an error if the blank is not the last class, which tf2onnx always uses as blank."""
    blank = node.get_attr_value("blank_index", -1)
    *_, classes = graph.get_shape(node.input[0]) or [-1]
    if blank not in (-1, classes - 1):
        raise ValueError(
            f"Expected the last of {classes} classes as the blank of a CTC decoder. Received: "
            f"mask_index={blank}. Move the blank to the last class, and call "
            f"keras.ops.ctc_decode(..., mask_index={classes - 1})."
        )
    convert_by_default("CTCGreedyDecoder", graph, node)


HANDLERS: Handlers = {
    "Bucketize": (_bucketize, []),
    "CTCGreedyDecoder": (_ctc_greedy_decoder, []),
    "InTopKV2": (_in_top_k, []),
    "LowerBound": (_lower_bound, []),
    "MatrixBandPart": (_band_part, []),
    "UnsortedSegmentMax": (_segments, []),
    "UnsortedSegmentMin": (_segments, []),
    "UnsortedSegmentProd": (_segments, []),
    "UnsortedSegmentSum": (_segments, []),
    "UpperBound": (_upper_bound, []),
}
