import numpy as np
import numpy.typing as npt

from keras_attn._backend.private_names import numpy_type, unique_node_name
from keras_attn.export._trace.tf2onnx_graph import Graph, Node


class Replacement:
    """Builds the ONNX nodes that replace a node of a tf2onnx graph.

    Args:
        graph: `tf2onnx.graph.Graph`.
        node: Node to replace; it is removed from the graph.

    Attributes:
        inputs: Names of the inputs of the node.
        dtype: Element type of the first output of the node, a number of `onnx.TensorProto`.
        numpy_dtype: The same type as a `numpy.dtype`.
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.inputs, self.outputs = graph, list(node.input), list(node.output)
        self._shapes, self._dtypes = node.output_shapes, node.output_dtypes
        self._name = node.name
        self.dtype = self._dtypes[0]
        self.numpy_dtype = np.dtype(numpy_type(self.dtype))
        graph.remove_node(node.name)

    def __call__(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Adds a node; returns the name of its output."""
        node = self.graph.make_node(
            operator,
            list(inputs),
            attr=attributes,
            op_name_scope=self._name,
        )
        return node.output[0]

    def constant(self, value: npt.ArrayLike, dtype: str | None = None) -> str:
        """Adds a constant, by default of the dtype of the result; returns its name."""
        name = unique_node_name(f"{self._name}/constant")
        return self.graph.make_const(name, np.array(value, dtype or self.numpy_dtype)).output[0]

    def cast(self, value: str, dtype: int) -> str:
        """Adds a conversion to an element type, a number of `onnx.TensorProto`."""
        return self("Cast", value, to=dtype)

    def where(self, condition: str, x: str, y: str) -> str:
        """Adds a selection between tensors of the dtype of the result."""
        from onnx import TensorProto

        if self.dtype == TensorProto.BOOL:
            return self("Or", self("And", condition, x), self("And", self("Not", condition), y))
        # ONNX Runtime has no `Where` for these types. The conversions keep all bits.
        wider: dict[int, int] = {
            TensorProto.INT16: TensorProto.INT32,
            TensorProto.UINT16: TensorProto.INT32,
            TensorProto.UINT64: TensorProto.INT64,
        }
        wide = wider.get(self.dtype)
        if wide is None:
            return self("Where", condition, x, y)
        selected = self("Where", condition, self.cast(x, wide), self.cast(y, wide))
        return self.cast(selected, self.dtype)

    def result(self, *values: str) -> None:
        """Makes values the first outputs of the replaced node. Nothing may read the others."""
        for value, output, shape, dtype in zip(
            values, self.outputs, self._shapes, self._dtypes, strict=False
        ):
            self.graph.make_node(
                "Identity", [value], outputs=[output], shapes=[shape], dtypes=[dtype]
            )
