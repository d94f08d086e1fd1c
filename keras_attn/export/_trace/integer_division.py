"""Division and remainders that round like TensorFlow and do not crash the process.

tf2onnx rounds quotients towards zero. In ONNX Runtime, dividing an integer by 0, or the smallest
integer by -1, is a hardware exception (SIGFPE), which ends the process. In exported files, a
division by 0 returns 0, as in NumPy; TensorFlow raises an error.
"""

from collections.abc import Callable, Sequence

from keras_attn._backend.private_names import convert_by_default
from keras_attn.export._trace.operators.replacement import Replacement
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node


def _floor_mod(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x % y` with the sign of `y`, like `Mod` of ONNX for integers.

    For floats, `Mod` has the sign of `x`, and is exact, unlike `x - floor(x / y) * y`.
    """
    if not _is_integer(graph, node):
        new = Replacement(graph, node)
        x, y = new.inputs
        zero = new.constant(0)
        rest = new("Mod", x, y, fmod=1)
        signs_differ = new("Xor", new("Less", rest, zero), new("Less", y, zero))
        is_corrected = new("And", signs_differ, new("Not", new("Equal", rest, zero)))
        new.result(new("Where", is_corrected, new("Add", rest, y), rest))
        return
    is_safe = _is_safe(node)
    new = Replacement(graph, node)
    x, y = new.inputs
    new.result(new("Mod", x, y if is_safe else _safe(new, y)[0]))


def _floor_div(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x // y`, rounded down. (`Div` of ONNX rounds integers towards zero.)"""
    if _is_integer(graph, node):
        _quotient(graph, node, _floored)
    else:
        convert_by_default("FloorDiv", graph, node)


def _floored(new: Replacement, x: str, y: str) -> str:
    """Computes `x // y` as `(x - x % y) / y`.

    Signed integers of less than 64 bits are converted to int64, so that `x - x % y` cannot
    overflow. For int64 itself, the quotient is computed without this difference.
    """
    from onnx import TensorProto

    dtype = new.numpy_dtype
    if dtype.kind == "u":
        return new("Div", new("Sub", x, new("Mod", x, y)), y)
    if dtype.itemsize < 8:
        x, y = new.cast(x, TensorProto.INT64), new.cast(y, TensorProto.INT64)
        return new.cast(new("Div", new("Sub", x, new("Mod", x, y)), y), new.dtype)
    # Subtract 1 from the truncated quotient if there is a remainder and the signs differ.
    zero = new.constant(0)
    signs_differ = new("Xor", new("Less", x, zero), new("Less", y, zero))
    has_rest = new("Not", new("Equal", new("Mod", x, y), zero))
    return new("Sub", new("Div", x, y), new.cast(new("And", signs_differ, has_rest), new.dtype))


def _truncate_div(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x / y`, rounded towards zero."""
    if _is_integer(graph, node):
        _quotient(graph, node, lambda new, x, y: new("Div", x, y))
    else:
        node.type = "Div"


def _truncate_mod(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x % y` with the sign of `x`, as in C."""
    if not _is_integer(graph, node):
        node.type = "Mod"
        node.set_attr("fmod", 1)
        return
    is_safe = _is_safe(node)
    new = Replacement(graph, node)
    x, y = new.inputs
    y = y if is_safe else _safe(new, y)[0]
    new.result(new("Sub", x, new("Mul", new("Div", x, y), y)))


def _quotient(graph: Graph, node: Node, divide: Callable[[Replacement, str, str], str]) -> None:
    """Replaces a node by a division that avoids the divisors 0 and -1."""
    is_safe = _is_safe(node)
    new = Replacement(graph, node)
    x, y = new.inputs
    if is_safe:
        new.result(divide(new, x, y))
        return
    safe, is_special = _safe(new, y)
    # For the divisors y = 0 and y = -1, the result is x * y: 0 or -x. Here -x wraps around for the
    # smallest integer.
    new.result(new.where(is_special, new("Mul", x, y), divide(new, x, safe)))


def _safe(new: Replacement, divisor: str) -> tuple[str, str]:
    """Returns the divisors with 1 instead of 0 and -1, and a mask of the replaced divisors."""
    is_special = new("Equal", divisor, new.constant(0))
    if new.numpy_dtype.kind == "i":
        is_special = new("Or", is_special, new("Equal", divisor, new.constant(-1)))
    return new.where(is_special, new.constant(1), divisor), is_special


def _is_safe(node: Node) -> bool:
    """Returns whether the divisor of a node is constant, and neither 0 nor -1."""
    divisor = node.inputs[1]
    if not divisor.is_const():
        return False
    values = divisor.get_tensor_value(as_list=False)
    return not ((values == 0) | (values + 1 == 0)).any()


def _is_integer(graph: Graph, node: Node) -> bool:
    from onnx import TensorProto

    floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
    return graph.get_dtype(node.input[0]) not in floats


HANDLERS: Handlers = {
    "Div": (_truncate_div, []),
    "FloorDiv": (_floor_div, []),
    "FloorMod": (_floor_mod, []),
    "TruncateDiv": (_truncate_div, []),
    "TruncateMod": (_truncate_mod, []),
}
"""The argument `custom_op_handlers` of tf2onnx."""
