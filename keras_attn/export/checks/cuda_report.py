import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from keras_attn.export.checks.cuda_kernels import CUDA_KERNELS, FILLS, TYPED_INPUT
from keras_attn.export.passes.graph import subgraphs
from keras_attn.export.passes.value_types import value_types

if TYPE_CHECKING:
    import onnx

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
            others = set(node.input) - on_cpu - {""}
            from_shapes = len(others) < len(node.input) and others <= constants
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
