from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import copy_of, nested_graphs, subgraphs
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx

MOVES = frozenset(
    """
    Abs Concat Expand Flatten Gather GatherElements GatherND Max Min Neg Pad Relu Reshape
    ReverseSequence ScatterElements ScatterND Slice Split Squeeze Tile Transpose Trilu Unsqueeze
    Where
    """.split()
)
"""Operators whose results consist of input values, so that the results need no rounding."""


def emulate_float16(model: "onnx.ModelProto") -> None:
    """Converts a float16 model to a float32 model that rounds like float16.

    On a CPU, ONNX Runtime computes float16 operators in float32 and removes the casts between them.
    Unlike on a GPU, results are not rounded to float16 and do not overflow. So this pass rounds
    each result x with arithmetic that ONNX Runtime does not remove. The rounded result y has 11
    bits (Veltkamp's splitting, [Dekker, 1971](https://doi.org/10.1007/BF01397083)), and is infinite
    from 2^16 on:

        c = (2^13 + 1) x        y = 2^-112 (2^112 (c - (c - x)))

    Numbers below 2^-14, and values inside of an LSTM or GRU, keep more bits than in float16.

    Args:
        model: `onnx.ModelProto` with unique names and all constants in the main graph; changed in
            place.
    """
    from onnx import TensorProto, helper, numpy_helper

    types = value_types(model)
    halves = {name for name, type_ in types.items() if type_ == TensorProto.FLOAT16}
    for tensor in model.graph.initializer:
        if tensor.name in halves:
            array = numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    numbers = {"float16/split": 2.0**13 + 1, "float16/up": 2.0**112, "float16/down": 2.0**-112}
    model.graph.initializer.extend(
        helper.make_tensor(name, TensorProto.FLOAT, [], [number])
        for name, number in numbers.items()
    )
    # Inner graphs first, because outer graphs copy them.
    for graph in reversed(list(nested_graphs(model.graph))):
        for value in [*graph.input, *graph.output]:
            if value.name in halves:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        nodes = []
        for original in graph.node:
            node = copy_of(original)
            nodes.append(node)
            if node.op_type == "Cast" and node.output[0] in halves:
                node.attribute[0].i = TensorProto.FLOAT
            if node.op_type in MOVES or list(subgraphs(node)):
                continue
            for index, name in enumerate(node.output):
                if name in halves:
                    node.output[index] = f"{name}/exact"
                    nodes.extend(_rounding(node.output[index], name))
        del graph.node[:]
        graph.node.extend(nodes)


def _rounding(exact: str, rounded: str) -> "list[onnx.NodeProto]":
    """Returns the nodes that compute the value `rounded` from the value `exact`."""
    from onnx import helper

    part = f"{rounded}/{{}}".format
    return [
        helper.make_node("Mul", [exact, "float16/split"], [part("c")]),
        helper.make_node("Sub", [part("c"), exact], [part("rest")]),
        helper.make_node("Sub", [part("c"), part("rest")], [part("11_bits")]),
        helper.make_node("Mul", [part("11_bits"), "float16/up"], [part("up")]),
        helper.make_node("Mul", [part("up"), "float16/down"], [rounded]),
    ]
