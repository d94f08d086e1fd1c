"""Finds expressions in a graph.

A pattern is the name of a variable, or a tuple of an operator and patterns of its first inputs:
`("Mul", "x", ("Sigmoid", "x"))` is x times sigmoid of x. A variable stands for the same value
wherever it occurs. The inputs of `Add` and `Mul` match in either order.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import onnx

Pattern: TypeAlias = "str | tuple[Pattern, ...]"

COMMUTATIVE = ("Add", "Mul")


def match(
    pattern: Pattern,
    name: str,
    producers: "Mapping[str, onnx.NodeProto]",
    bound: dict[str, str] | None = None,
) -> dict[str, str] | None:
    """Matches the expression that computes a value.

    Args:
        pattern: Pattern, see the docstring of this module.
        name: String, name of the value.
        producers: Dict from the names of values to the nodes that compute them.
        bound: Dict from variables that are already matched to names of values, or `None`. Defaults
            to `None`.

    Returns:
        Dict from variables to names of values, or `None` if the expression does not match.
    """
    bound = {} if bound is None else bound
    if isinstance(pattern, str):
        return None if bound.get(pattern, name) != name else {**bound, pattern: name}
    operator, *operands = pattern
    node = producers.get(name)
    if node is None or node.op_type != operator or len(node.input) < len(operands):
        return None
    inputs = list(node.input)[: len(operands)]
    orders = [inputs, inputs[::-1]] if operator in COMMUTATIVE else [inputs]
    for order in orders:
        result = bound
        for operand, value in zip(operands, order, strict=True):
            result = None if result is None else match(operand, value, producers, result)
        if result is not None:
            return result
    return None
