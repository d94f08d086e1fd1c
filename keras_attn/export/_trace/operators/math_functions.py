"""Mathematical functions of one or two tensors."""

import math
from collections.abc import Callable, Sequence

from keras_attn.export._trace.operators.replacement import Replacement
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node


def _erfc(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `1 - erf(x)`, which is exact enough for gelu, but not for small results."""
    new = Replacement(graph, node)
    new.result(new("Sub", new.constant(1), new("Erf", new.inputs[0])))


def _expm1(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `exp(x) - 1 = tanh(x / 2) (exp(x) + 1)`, which is also exact for a small `x`."""
    new = Replacement(graph, node)
    (x,) = new.inputs
    half = new("Tanh", new("Mul", x, new.constant(0.5)))
    new.result(new("Mul", half, new("Add", new("Exp", x), new.constant(1))))


def _log1p(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `log(1 + x)` times `x / ((1 + x) - 1)`, which corrects the rounding of `1 + x`.

    See theorem 4 of Goldberg, 1991, "What every computer scientist should know about floating-point
    arithmetic".
    """
    new = Replacement(graph, node)
    (x,) = new.inputs
    one = new.constant(1)
    rounded = new("Add", x, one)
    rest = new("Sub", rounded, one)
    log = new("Log", rounded)
    corrected = new("Mul", log, new("Div", x, rest))
    corrected = new("Where", new("Equal", rest, new.constant(0)), x, corrected)
    new.result(new("Where", new("Equal", rest, x), log, corrected))  # also if x is infinite


def _bitcast(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Converts a float to an integer with the same sign bit, for `keras.ops.signbit`.

    The other bits cannot be computed in ONNX. If the graph uses them, an error is raised.
    """
    from onnx import TensorProto

    readers = graph.find_output_consumers(node.output[0])
    reads_sign = all(
        reader.type == "BitwiseAnd"
        and any(item.is_const() and item.get_tensor_value() == -(2**31) for item in reader.inputs)
        for reader in readers
    )
    dtypes = graph.get_dtype(node.input[0]), graph.get_dtype(node.output[0])
    is_sign = dtypes == (TensorProto.FLOAT, TensorProto.INT32) and readers and reads_sign
    if dtypes[0] != dtypes[1] and not is_sign:
        raise ValueError(f"{name} reinterprets the bits of a tensor, which ONNX cannot do.")
    new = Replacement(graph, node)
    (x,) = new.inputs
    if dtypes[0] == dtypes[1]:
        new.result(x)
        return
    zero = new.constant(0, "float32")
    is_below = new("Less", x, zero)
    # The reciprocal of a negative zero is -infinity.
    below = new("Less", new("Reciprocal", x), zero)
    is_zero = new("Equal", x, zero)
    sign = new("Or", is_below, new("And", is_zero, below))
    new.result(new("Mul", new.cast(sign, new.dtype), new.constant(-(2**31))))


def _xlogy(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x log(y)`. The result is 0 where `x` is 0, for every `y`."""
    _zero_where_first_is(graph, node, lambda new, x, y: new("Mul", x, new("Log", y)))


def _xlog1py(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x log(1 + y)`. The result is 0 where `x` is 0."""
    _zero_where_first_is(
        graph,
        node,
        lambda new, x, y: new("Mul", x, new("Log", new("Add", y, new.constant(1)))),
    )


def _xdivy(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x / y`. The result is 0 where `x` is 0."""
    _zero_where_first_is(graph, node, lambda new, x, y: new("Div", x, y))


def _zero_where_first_is(
    graph: Graph, node: Node, function: Callable[[Replacement, str, str], str]
) -> None:
    new = Replacement(graph, node)
    x, y = new.inputs
    zero = new.constant(0)
    new.result(new("Where", new("Equal", x, zero), zero, function(new, x, y)))


def _div_no_nan(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x / y`. The result is 0 where `y` is 0."""
    new = Replacement(graph, node)
    x, y = new.inputs
    zero = new.constant(0)
    new.result(new("Where", new("Equal", y, zero), zero, new("Div", x, y)))


def _mul_no_nan(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `x y`. The result is 0 where `y` is 0, for every `x`."""
    new = Replacement(graph, node)
    x, y = new.inputs
    zero = new.constant(0)
    new.result(new("Where", new("Equal", y, zero), zero, new("Mul", x, y)))


def _atan2(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Returns the angle of the point `(x, y)`, also on axes, at infinity and for negative zeros."""
    new = Replacement(graph, node)
    y, x = new.inputs
    zero, infinity = new.constant(0), new.constant(math.inf)

    def is_negative(value: str) -> str:
        below = new("Less", new("Reciprocal", value), zero)
        return new("Or", new("Less", value, zero), new("And", new("Equal", value, zero), below))

    # If both coordinates are infinite, the quotient is 1 or -1, the quotient of their signs.
    both = new(
        "And",
        new("Equal", new("Abs", x), infinity),
        new("Equal", new("Abs", y), infinity),
    )
    quotient = new("Div", y, x)
    quotient = new("Where", both, new("Mul", new("Sign", y), new("Sign", x)), quotient)
    # If both coordinates are 0, the angle is 0 before the half turn below.
    origin = new("And", new("Equal", x, zero), new("Equal", y, zero))
    angle = new("Where", origin, zero, new("Atan", quotient))
    turn = new("Where", is_negative(y), new.constant(-math.pi), new.constant(math.pi))
    left = is_negative(x)
    on_axis = new("And", left, new("Equal", y, zero))
    turned = new("Where", on_axis, turn, new("Add", angle, turn))
    new.result(new("Where", left, turned, angle))


def _cross(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes the cross product of vectors with three components, along the last axis."""
    new = Replacement(graph, node)

    def turned(vector: str, places: list[int]) -> str:
        return new("Gather", vector, new.constant(places, "int64"), axis=-1)

    x, y = new.inputs
    first = new("Mul", turned(x, [1, 2, 0]), turned(y, [2, 0, 1]))
    second = new("Mul", turned(x, [2, 0, 1]), turned(y, [1, 2, 0]))
    new.result(new("Sub", first, second))


def _sparse_crossentropy(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Computes `-log_softmax(logits)` at the labels. `log(softmax)`, tf2onnx's form, underflows.

    The second result, the gradient, is not computed. If the graph reads it, an error is raised.
    """
    from onnx import TensorProto

    if graph.find_output_consumers(node.output[1]):
        raise ValueError(f"{name} computes a gradient, which is not exported.")
    new = Replacement(graph, node)
    logits, labels = new.inputs
    labels = new("Unsqueeze", new.cast(labels, TensorProto.INT64), new.constant([-1], "int64"))
    log_probs = new("GatherElements", new("LogSoftmax", logits, axis=-1), labels, axis=-1)
    new.result(new("Neg", new("Squeeze", log_probs, new.constant([-1], "int64"))))


def _broadcast_args(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Returns the shape to which two shapes broadcast."""
    from onnx import TensorProto

    lengths = [length for value in node.input for length in graph.get_shape(value) or [-1]]
    if -1 in lengths:
        raise ValueError(f"{name} broadcasts shapes of unknown rank.")
    longest = max(lengths)
    new = Replacement(graph, node)
    shapes = []
    for value, length in zip(new.inputs, lengths, strict=True):
        ones = new.constant([1] * (longest - length), "int64")
        shapes.append(new("Concat", ones, new.cast(value, TensorProto.INT64), axis=0))
    is_one = new("Equal", shapes[0], new.constant(1, "int64"))
    new.result(new.cast(new("Where", is_one, shapes[1], shapes[0]), new.dtype))


HANDLERS: Handlers = {
    "Atan2": (_atan2, []),
    "Bitcast": (_bitcast, []),
    "BroadcastArgs": (_broadcast_args, []),
    "Cross": (_cross, []),
    "DivNoNan": (_div_no_nan, []),
    "Erfc": (_erfc, []),
    "Expm1": (_expm1, []),
    "Log1p": (_log1p, []),
    "MulNoNan": (_mul_no_nan, []),
    "SparseSoftmaxCrossEntropyWithLogits": (_sparse_crossentropy, []),
    "Xdivy": (_xdivy, []),
    "Xlog1py": (_xlog1py, []),
    "Xlogy": (_xlogy, []),
}
