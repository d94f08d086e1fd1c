from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import all_names, nested_graphs, unused
from keras_attn.export._passes.patterns import match
from keras_attn.export._passes.symbolic_shapes import SymbolicShapes

if TYPE_CHECKING:
    import onnx

MEAN = ("ReduceMean", "x", "axes")
DIFFERENCE = ("Sub", "x", MEAN)
VARIANCE = ("ReduceMean", ("Mul", DIFFERENCE, DIFFERENCE), "axes")
SCALE = ("Mul", ("Reciprocal", ("Sqrt", ("Add", VARIANCE, "epsilon"))), "gamma")
LAYER = ("Add", ("Mul", "x", SCALE), ("Add", ("Mul", ("Neg", MEAN), SCALE), "beta"))
"""`keras.layers.LayerNormalization`: x s + (beta - mean s), s = gamma / sqrt(var + epsilon)."""

ROOT = ("Sqrt", ("Add", ("ReduceMean", ("Mul", "x", "x"), "axes"), "epsilon"))
RMS = ("Mul", "x", ("Reciprocal", ROOT))
"""`keras.layers.RMSNormalization` before gamma: x / sqrt(mean(x^2) + epsilon)."""


def fuse_normalization(model: "onnx.ModelProto") -> None:
    """Rewrites normalizations over the last axis so that each runs as one operator.

    Layer normalization becomes `LayerNormalization`. Opset 18 has no operator for RMS
    normalization, so this pass rewrites it to nodes that ONNX Runtime fuses into one operator.

    Args:
        model: `onnx.ModelProto` with unique names and all constants in the main graph; changed in
            place.
    """
    from onnx import TensorProto, helper, numpy_helper

    numbers = {
        tensor.name: float(numpy_helper.to_array(tensor).item())
        for tensor in model.graph.initializer
        if tensor.dims in ([], [1])
    }
    weights = {tensor.name for tensor in model.graph.initializer}
    symbolic = SymbolicShapes(model)
    nodes = [node for graph in nested_graphs(model.graph) for node in graph.node]
    # Only means with `keepdims` match: other means would be broadcast along a different axis.
    kept = [node for node in nodes if node.op_type != "ReduceMean" or _keeps_axes(node)]
    producers = {name: node for node in kept for name in node.output}

    def vector(name: str, x: str) -> str | None:
        """Returns the name of a weight vector of the size of the last axis of `x`, or `None`.

        If the vector is reshaped for broadcasting, returns its name before the Reshape.
        """
        last = symbolic.shapes.get(x, ())[-1:]
        node = producers.get(name)
        if node is not None and node.op_type == "Reshape":
            shape = symbolic.contents.get(node.input[1])
            sizes = shape if isinstance(shape, tuple) else ()
            if set(sizes[:-1]) <= {1} and sizes[-1:] in ((-1,), last):
                name = node.input[0]
        return name if last and name in weights and symbolic.shapes[name] == last else None

    two = unused("fuse_normalization/two", all_names(model))
    model.graph.initializer.append(helper.make_tensor(two, TensorProto.FLOAT, [], [2.0]))
    for node in nodes:
        names = match(LAYER, node.output[0], producers)
        if names is not None:
            gamma, beta = (vector(names[name], names["x"]) for name in ("gamma", "beta"))
            epsilon = numbers.get(names["epsilon"])
            is_last_axis = numbers.get(names["axes"]) == -1
            if is_last_axis and gamma is not None and beta is not None and epsilon is not None:
                node.op_type = "LayerNormalization"
                node.input[:] = [names["x"], gamma, beta]
                attributes = {"axis": -1, "epsilon": epsilon}
                node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
            continue
        names = match(RMS, node.output[0], producers)
        if names is not None and numbers.get(names["axes"]) == -1:
            factors = [name for name in node.input if name != names["x"]]
            root = producers[producers[factors[0]].input[0]]
            mean = producers[_other(producers[root.input[0]], names["epsilon"])]
            square = producers[mean.input[0]]
            square.op_type = "Pow"
            square.input[:] = [names["x"], two]
            node.op_type = "Div"
            node.input[:] = [names["x"], root.output[0]]


def _keeps_axes(node: "onnx.NodeProto") -> bool:
    return all(attribute.i for attribute in node.attribute if attribute.name == "keepdims")


def _other(node: "onnx.NodeProto", name: str) -> str:
    """Returns the input of a node with two inputs that is not `name`."""
    return node.input[1] if node.input[0] == name else node.input[0]
