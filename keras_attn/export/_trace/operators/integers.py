"""Shifts of integers."""

from collections.abc import Sequence

from keras_attn.export._trace.operators.replacement import Replacement
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node


def _left_shift(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x << y` with unsigned integers, because ONNX cannot shift signed integers."""
    new = Replacement(graph, node)
    shifted = new("BitShift", _unsigned(new, new.inputs[0]), _distance(new), direction="LEFT")
    new.result(_wrapped(new, shifted))


def _right_shift(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x >> y`, which rounds down. For a negative `x`, this is `~(~x >> y)`."""
    new = Replacement(graph, node)
    value, distance = new.inputs[0], _distance(new)
    if _is_unsigned(new):
        mask = new.constant(0)
    else:  # the mask has only ones for a negative `x`, so that `x ^ mask` is `~x`
        mask = new("Neg", new.cast(new("Less", value, new.constant(0)), new.dtype))
    value = _unsigned(new, new("BitwiseXor", value, mask))
    shifted = new.cast(new("BitShift", value, distance, direction="RIGHT"), new.dtype)
    new.result(new("BitwiseXor", shifted, mask))


def _distance(new: Replacement) -> str:
    """Returns the distance of the shift as uint64, clipped to [0, bits - 1] as in TensorFlow."""
    distance = new("Max", _wide(new, new.inputs[1]), new.constant(0, "int64"))
    distance = new("Min", distance, new.constant(_bits(new) - 1, "int64"))
    return _unsigned(new, distance)


def _wrapped(new: Replacement, value: str) -> str:
    """Converts a uint64 to the dtype of the result; keeps only the lowest bits.

    Numbers outside of the range of the dtype are reduced before the conversion, because the result
    of converting them would depend on the runtime.
    """
    from onnx import TensorProto

    bits = _bits(new)
    if bits == 64:
        return new.cast(value, new.dtype)  # the conversion keeps all bits
    value = new("BitwiseAnd", value, new.constant(2**bits - 1, "uint64"))
    value = new.cast(value, TensorProto.INT64)
    if not _is_unsigned(new):
        is_negative = new("GreaterOrEqual", value, new.constant(2 ** (bits - 1), "int64"))
        below = new("Sub", value, new.constant(2**bits, "int64"))
        value = new("Where", is_negative, below, value)
    return new.cast(value, new.dtype)


def _unsigned(new: Replacement, value: str) -> str:
    from onnx import TensorProto

    return new.cast(value, TensorProto.UINT64)


def _wide(new: Replacement, value: str) -> str:
    from onnx import TensorProto

    return new.cast(value, TensorProto.INT64)


def _bits(new: Replacement) -> int:
    return 8 * new.numpy_dtype.itemsize


def _is_unsigned(new: Replacement) -> bool:
    return new.numpy_dtype.kind == "u"


HANDLERS: Handlers = {
    "LeftShift": (_left_shift, []),
    "RightShift": (_right_shift, []),
}
