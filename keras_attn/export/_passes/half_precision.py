from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import copy_of, nested_graphs, rename_values, subgraphs
from keras_attn.export._passes.remove_unused import remove_unused
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx

PRODUCTS = frozenset("GRU Gemm LSTM MatMul RNN".split())
"""Operators that always compute in float16, because they take most of the time."""

PRECISE = frozenset(
    """
    Cos CumSum Exp Log LogSoftmax Pow Range Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare ScatterND Sin Softmax Softplus Sqrt TopK
    """.split()
)
"""Operators that always compute in float32: sums of many terms, operators whose results can leave
the range of float16, and TopK. LayerNormalization is not listed, because ONNX defines that it
computes in float32 for inputs of any type. ONNX Runtime adds with ScatterND in float32 only."""

ANY_TYPE = frozenset("Cast NonZero Shape Size".split())
"""Operators that accept any type. Their inputs are not converted."""

OPEN, HALF, FULL = range(3)


def half_precision(model: "onnx.ModelProto") -> None:
    """Stores weights in float16, and computes in float16 where the results are accurate enough.

    A GPU multiplies float16 matrices several times as fast as float32 matrices, and reads half as
    much memory. Every float value has one of three kinds:

    - half (float16): weight matrices; results of matrix products, LSTM and GRU; results of other
      operators that read half values, such as additions, activations, layer normalization,
      selections and changes of shape. In a Transformer block, only attention scores and attention
      weights are converted.
    - full (float32): results of `PRECISE` operators that read half or full values; results of
      operators that read full values, or a constant outside of the range of float16, such as -1e30
      in masks. Examples are attention weights, log probabilities and scores.
    - open: all other values, such as positions, masks, biases and small constants. They remain
      float32 until an operator combines them with half values.

    If an operator has inputs of different kinds, its result has the highest kind, in the order
    open, half, full. A state of a loop has the higher kind of its initial and final values. Each
    value is converted once, directly after the node that computes it. The pass expects unique names
    and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place. Its inputs and outputs keep their types.
    """
    from onnx import TensorProto

    floats = {name for name, type_ in value_types(model).items() if type_ == TensorProto.FLOAT}
    kinds = dict.fromkeys((value.name for value in model.graph.input), OPEN)
    kinds.update((tensor.name, _kind_of_constant(tensor)) for tensor in model.graph.initializer)
    kinds = {name: kind for name, kind in kinds.items() if name in floats}
    _find_kinds(model.graph, floats, kinds)
    _keep_output_types(model.graph, kinds)
    conversions = _Conversions(model.graph, kinds)
    for graph in nested_graphs(model.graph):
        for node in graph.node:
            conversions.convert_inputs(node)
    conversions.insert()
    remove_unused(model)


def _kind_of_constant(tensor: "onnx.TensorProto") -> int:
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    if array.dtype != "float32":
        return OPEN
    with np.errstate(over="ignore"):
        rounded = array.astype("float16").astype("float32")
    # An element of a weight may become zero, but a scalar, such as an epsilon, may not.
    exact = 1e-3 * np.abs(array) if array.size == 1 else np.inf
    if not (np.isfinite(rounded).all() and (np.abs(rounded - array) <= exact).all()):
        return FULL
    is_matrix = sum(size > 1 for size in array.shape) > 1
    return HALF if is_matrix else OPEN


def _kind_of_results(node: "onnx.NodeProto", kinds: Mapping[str, int]) -> int:
    """Returns the kind of the results of a node without nested graphs."""
    highest = max((kinds[name] for name in node.input if name in kinds), default=OPEN)
    if node.op_type in PRODUCTS:
        return HALF
    if node.op_type in PRECISE:
        return FULL if highest > OPEN else OPEN
    return OPEN if node.op_type in ANY_TYPE else highest


def _find_kinds(graph: "onnx.GraphProto", floats: set[str], kinds: dict[str, int]) -> None:
    """Adds the kinds of all values that a graph computes."""
    for node in graph.node:
        bodies = list(subgraphs(node))
        if node.op_type == "Loop":
            results = _find_kinds_in_loop(node, bodies[0], floats, kinds)
        elif bodies:
            for body in bodies:
                _find_kinds(body, floats, kinds)
            branches = zip(*(body.output for body in bodies), strict=True)
            results = [max(kinds.get(value.name, OPEN) for value in values) for values in branches]
        else:
            results = [_kind_of_results(node, kinds)] * len(node.output)
        kinds.update(
            (name, kind) for name, kind in zip(node.output, results, strict=True) if name in floats
        )


def _find_kinds_in_loop(
    node: "onnx.NodeProto", body: "onnx.GraphProto", floats: set[str], kinds: dict[str, int]
) -> list[int]:
    """Adds the kinds of all values in a loop, and returns the kinds of its results."""
    starts, inputs = node.input[2:], [value.name for value in body.input[2:]]
    outputs = [value.name for value in body.output[1:]]
    states = [state for state in zip(inputs, starts, outputs, strict=False) if state[0] in floats]
    changes = True
    while changes:
        for inner, start, end in states:
            kinds[inner] = max(kinds.get(name, OPEN) for name in (inner, start, end))
        _find_kinds(body, floats, kinds)
        changes = any(kinds[end] > kinds[inner] for inner, _, end in states)
    return [kinds.get(name, OPEN) for name in inputs + outputs[len(inputs) :]]


def _keep_output_types(graph: "onnx.GraphProto", kinds: dict[str, int]) -> None:
    """Converts half outputs of a model back to float32."""
    from onnx import TensorProto, helper

    for value in graph.output:
        if kinds.get(value.name) == HALF:
            name, half = value.name, f"{value.name}/float16"
            rename_values(graph, {name: half})
            value.name, kinds[half] = name, kinds.pop(name)
            graph.node.append(helper.make_node("Cast", [half], [name], to=TensorProto.FLOAT))


class _Conversions:
    """Converts values to the type that an operator requires.

    Args:
        graph: Main `onnx.GraphProto`.
        kinds: Dict from the names of float values to their kinds.
    """

    def __init__(self, graph: "onnx.GraphProto", kinds: dict[str, int]) -> None:
        self.graph, self.kinds = graph, kinds
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.casts, self.halved = {}, set()

    def convert_inputs(self, node: "onnx.NodeProto") -> None:
        """Converts the inputs of a node, and the results of its graphs, to the required types."""
        bodies = list(subgraphs(node))
        if node.op_type == "Loop":
            self._convert_states(node, bodies[0])
        elif bodies:
            for body in bodies:
                for value, result in zip(body.output, node.output, strict=True):
                    self._convert_output(value, self.kinds.get(result))
        elif node.op_type not in ANY_TYPE:
            kind = _kind_of_results(node, self.kinds)
            node.input[:] = [self._converted(name, kind) for name in node.input]

    def _convert_states(self, node: "onnx.NodeProto", body: "onnx.GraphProto") -> None:
        for index, value in enumerate(body.input[2:]):
            kind = self.kinds.get(value.name)
            node.input[2 + index] = self._converted(node.input[2 + index], kind)
            self._convert_output(body.output[1 + index], kind)
            self._declare(value, kind)
        for value in body.output[len(body.input) - 1 :]:
            self._declare(value, self.kinds.get(value.name))

    def _convert_output(self, value: "onnx.ValueInfoProto", kind: int | None) -> None:
        value.name = self._converted(value.name, kind)
        self._declare(value, kind)

    def _declare(self, value: "onnx.ValueInfoProto", kind: int | None) -> None:
        from onnx import TensorProto

        if kind == HALF:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16

    def _converted(self, name: str, kind: int | None) -> str:
        """Returns the name of a value in the type of `kind`."""
        from onnx import TensorProto, helper, numpy_helper

        is_half = name not in self.constants and self.kinds.get(name) == HALF
        if name not in self.kinds or is_half == (kind == HALF):
            return name
        wanted = f"{name}/float32" if is_half else f"{name}/float16"
        if name not in self.constants:
            to = TensorProto.FLOAT if is_half else TensorProto.FLOAT16
            self.casts[name] = helper.make_node("Cast", [name], [wanted], to=to)
        elif name not in self.halved:
            self.halved.add(name)
            array = numpy_helper.to_array(self.constants[name]).astype("float16")
            self.graph.initializer.append(numpy_helper.from_array(array, wanted))
        return wanted

    def insert(self) -> None:
        """Inserts each Cast directly after the node that computes its input."""
        # Inner graphs first, because outer graphs copy them.
        for graph in reversed(list(nested_graphs(self.graph))):
            nodes = [self.casts[value.name] for value in graph.input if value.name in self.casts]
            for node in graph.node:
                nodes.append(copy_of(node))
                nodes.extend(self.casts[name] for name in node.output if name in self.casts)
            del graph.node[:]
            graph.node.extend(nodes)
