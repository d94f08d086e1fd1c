import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from keras_attn.export._passes.graph import subgraphs
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx


_FLOATS = ("FLOAT", "FLOAT16")
_NUMBERS = (*_FLOATS, "INT32", "INT64")
_BYTES = ("INT8", "UINT8")
_ALL = (*_NUMBERS, *_BYTES, "BOOL")

_TYPES = {
    _ALL: """
        Cast Compress Concat Constant ConstantOfShape Expand Flatten Gather GatherElements Identity
        If Loop Reshape ReverseSequence ScatterElements ScatterND Shape Size Slice Split Squeeze
        Transpose Trilu Unsqueeze""",
    (*_NUMBERS, *_BYTES): "Abs Add Div Mul ReduceMin Sign Sub",
    (*_NUMBERS, "INT8"): "Neg",
    (*_NUMBERS, "UINT8"): "Where",
    (*_NUMBERS, "UINT8", "BOOL"): "NonZero",
    (*_NUMBERS, "BOOL"): "Equal",
    _NUMBERS: """
        CumSum Greater GreaterOrEqual Less LessOrEqual Max Min Mod Pow ReduceMax ReduceSum Tile
        TopK""",
    (*_FLOATS, "INT64", "BOOL"): "GatherND",
    (*_FLOATS, "INT64", *_BYTES): "Clip",
    (*_FLOATS, "INT32", "UINT8"): "Resize",
    (*_FLOATS, "INT64"): "OneHot",
    (*_FLOATS, "INT32"): "ReduceL2 ReduceMean ReduceProd",
    (*_FLOATS, "BOOL"): "Pad",
    ("FLOAT", "INT32", "INT64"): "EyeLike Range",
    _FLOATS: """
        ArgMax ArgMin AveragePool BatchNormalization Ceil Conv ConvTranspose Cos DepthToSpace Elu
        Erf Exp Floor GRU Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish IsNaN LSTM
        LayerNormalization LeakyRelu Log LogSoftmax MatMul MaxPool PRelu QuantizeLinear RNN
        Reciprocal ReduceSumSquare Relu Round Selu Sigmoid Sin Softmax Softplus Softsign
        SpaceToDepth Sqrt Sum
        Tanh ThresholdedRelu""",
    ("FLOAT",): "IsInf",
    ("BOOL",): "And Not Or Xor",
    ("INT8",): "MatMulInteger",
    ("INT4",): "DequantizeLinear",
    (): """
        Acos Acosh Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cosh
        Det DynamicQuantizeLinear Sinh Tan Unique""",
}

CUDA_KERNELS = {name: types for types, names in _TYPES.items() for name in names.split()}
"""Maps an operator to the element types for which ONNX Runtime has a CUDA kernel. The element type
is the type of the first input, or of the input in `TYPED_INPUT`. The table covers the operators of
opsets 18 and 21 and the element types that an exported file may contain.

Source: docs/OperatorKernels.md of microsoft/onnxruntime, main branch in March 2026 (commit 001d12d,
between 1.24 and 1.25)."""

TYPED_INPUT = {"OneHot": 2, "Where": 1}
"""Index of the input whose type selects the kernel, if it is not the first input."""

FILLS = ("ConstantOfShape", "Expand", "Range", "Tile")
"""Operators whose CUDA kernels read a shape on the CPU and fill a tensor on the GPU."""


SMALL = 100
"""Maximum number of elements of a constant that ONNX Runtime can read on the CPU at no cost."""


@dataclasses.dataclass
class CudaReport:
    """The nodes of an ONNX file that ONNX Runtime would run on the CPU in a session with CUDA.

    If a node has no CUDA kernel, ONNX Runtime copies its inputs to the CPU, and its results back to
    the GPU. In a loop, the copies are made in each step. Nodes that only compute shapes also run on
    the CPU. They need no copies, and are counted separately.

    Attributes:
        nodes: Int, number of nodes of the file, including nested graphs.
        shapes: Int, number of nodes that compute shapes on the CPU.
        missing: `collections.Counter` of the nodes without a kernel, by names such as `"GatherND of
            int32"`.
        missing_in_loops: `collections.Counter` like `missing`, but only for nodes inside of loops.
    """

    nodes: int = 0
    shapes: int = 0
    missing: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    missing_in_loops: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )

    def __str__(self) -> str:
        if not self.missing:
            return f"CUDA has kernels for all {self.nodes} nodes"
        names = ", ".join(f"{count} {name}" for name, count in sorted(self.missing.items()))
        return (
            f"CUDA lacks kernels for {self.missing.total()} of {self.nodes} nodes ({names}), "
            f"{self.missing_in_loops.total()} of them in loops"
        )

    @classmethod
    def of(cls, model: "onnx.ModelProto") -> Self:
        """Finds the nodes of a model that have no CUDA kernel.

        Args:
            model: `onnx.ModelProto` of opset 18 or 21 with unique names.

        Returns:
            A `CudaReport`.
        """
        report = cls()
        report._look(model.graph, value_types(model), set(), in_loop=False)
        return report

    def _look(
        self, graph: "onnx.GraphProto", types: Mapping[str, int], constants: set[str], in_loop: bool
    ) -> None:
        """Counts the nodes of a graph.

        `constants` is the set of the names of small constants in the surrounding graphs.
        """
        constants = constants | {
            tensor.name for tensor in graph.initializer if math.prod(tensor.dims) <= SMALL
        }
        on_cpu = set()  # ONNX Runtime assigns the nodes of each graph separately
        for node in graph.node:
            self.nodes += 1
            missing = _missing_kernel(node, types)
            other_inputs = set(node.input) - on_cpu - {""}
            from_shapes = len(other_inputs) < len(node.input) and other_inputs <= constants
            if node.op_type in ("Shape", "Size") or (from_shapes and node.op_type not in FILLS):
                self.shapes += 1
                on_cpu.update(node.output)
            elif missing:
                self.missing[missing] += 1
                if in_loop:
                    self.missing_in_loops[missing] += 1
            for body in subgraphs(node):
                self._look(body, types, constants, in_loop or node.op_type == "Loop")


def _missing_kernel(node: "onnx.NodeProto", types: Mapping[str, int]) -> str | None:
    """Returns `"{operator} of {type}"` if a node has no CUDA kernel, otherwise `None`."""
    from onnx import TensorProto

    if list(subgraphs(node)):
        return None
    name = node.input[TYPED_INPUT.get(node.op_type, 0)] if node.input else ""
    kind = TensorProto.DataType.Name(types[name]) if name else "FLOAT"
    if kind in CUDA_KERNELS.get(node.op_type, ()):
        return None
    return f"{node.op_type} of {kind.lower()}"
