"""Infers the shapes of the values of a model without running the model."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

from keras_attn.export._passes.graph import subgraphs

if TYPE_CHECKING:
    import onnx

AttributeValue = TypeVar("AttributeValue")

Size: TypeAlias = int | str
"""Known size, or the name of a size that is known only when the model runs."""

Sizes: TypeAlias = tuple[Size, ...]
Content: TypeAlias = Size | Sizes
"""Content of an integer value: a size for a scalar, a tuple of sizes for a vector."""

ELEMENTWISE = frozenset(
    """
    Abs Add And Cast Ceil Clip Cos Div Elu Equal Erf Exp Floor Greater GreaterOrEqual Identity
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Max Min Mod Mul Neg Not Or Pow
    Reciprocal Relu Round Selu Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Sub Tanh Where Xor
    """.split()
)
REDUCTIONS = frozenset(
    "ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split()
)
# Longer than every axis. A Slice with this end, or a larger one, ends at the end of the axis.
UNLIMITED = 10**9


class SymbolicShapes:
    """Shapes of all values of a model, and contents of the integer values that define shapes.

    A known size is an int. A size that is known only when the model runs is a string, and equal
    strings stand for equal sizes. Values whose shape or content is unknown are omitted.

    Args:
        model: `onnx.ModelProto` with unique names.

    Attributes:
        shapes: Dict from the names of values to tuples of their sizes.
        contents: Dict from the names of integer values to their contents: a tuple of sizes for a
            vector, a size for a scalar.
    """

    def __init__(self, model: "onnx.ModelProto") -> None:
        self.shapes: dict[str, Sizes] = {}
        self.contents: dict[str, Content] = {}
        self._fresh = (f"?{number}" for number in itertools.count())
        self._read_constants(model.graph)
        for value in model.graph.input:
            self._read_type(value)
        self._read_nodes(model.graph)

    def _read_constants(self, graph: "onnx.GraphProto") -> None:
        from onnx import TensorProto, numpy_helper

        for tensor in graph.initializer:
            self.shapes[tensor.name] = tuple(tensor.dims)
            is_integer = tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
            if is_integer and len(tensor.dims) <= 1 and sum(tensor.dims) <= 16:
                array = numpy_helper.to_array(tensor)
                self.contents[tensor.name] = tuple(array.tolist()) if array.ndim else int(array)

    def _read_type(self, value: "onnx.ValueInfoProto") -> None:
        """Stores the declared shape of an input of a graph."""
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            self.shapes[value.name] = tuple(
                size.dim_value if size.HasField("dim_value") else next(self._fresh)
                for size in tensor.shape.dim
            )

    def _read_nodes(self, graph: "onnx.GraphProto") -> None:
        for node in graph.node:
            for inner in subgraphs(node):
                self._read_constants(inner)
                for value in inner.input:
                    self._read_type(value)
                self._read_nodes(inner)
            self._read_contents(node)
            shapes = self._output_shapes(node)
            for name, shape in zip(node.output, shapes, strict=False):
                if shape is not None:
                    self.shapes[name] = tuple(shape)
            content = self.contents.get(node.output[0])
            if content is not None:
                self.shapes[node.output[0]] = (len(content),) if isinstance(content, tuple) else ()

    # Contents of integer values that are computed from sizes.

    def _read_contents(self, node: "onnx.NodeProto") -> None:
        inputs = [self.contents.get(name) for name in node.input]
        first = inputs[0] if inputs else None
        result: Content | None = None
        if node.op_type == "Shape" and not node.attribute:
            result = self.shapes.get(node.input[0])
        elif first is None:
            return
        elif node.op_type == "Identity" or node.op_type == "Cast" and _is_to_integer(node):
            result = first
        elif node.op_type == "Gather" and inputs[1] is not None:
            result = _gather(first, inputs[1])
        elif node.op_type == "Slice":
            result = _slice(first, inputs[1:])
        elif node.op_type == "Squeeze" and isinstance(first, tuple) and len(first) == 1:
            result = first[0]
        elif node.op_type == "Unsqueeze" and not isinstance(first, tuple):
            result = (first,) if inputs[1:] in ([(0,)], [(-1,)]) else None
        elif node.op_type == "Concat":
            vectors = [shape for shape in inputs if isinstance(shape, tuple)]
            result = sum(vectors, ()) if len(vectors) == len(inputs) else None
        elif node.op_type == "ReduceProd" and isinstance(first, tuple):
            keeps = _attribute(node, "keepdims", 1)
            result = (_product(first),) if keeps else _product(first)
        elif node.op_type == "Mul":
            sizes = [size for size in inputs if isinstance(size, int | str)]
            result = _product(sizes) if len(sizes) == len(inputs) else None
        if result is not None:
            self.contents[node.output[0]] = result

    # Shapes.

    def _output_shapes(self, node: "onnx.NodeProto") -> Sequence[Iterable[Size] | None]:
        """Returns the known shapes of the outputs of a node."""
        shapes = [self.shapes.get(name) for name in node.input]
        first = shapes[0] if shapes else None
        if node.op_type in ELEMENTWISE:
            return [self._broadcast(shapes[:1] if "Softmax" in node.op_type else shapes)]
        if node.op_type == "Reshape":
            return [self._reshape(node, first)]
        if node.op_type == "Shape" and first is not None and not node.attribute:
            return [(len(first),)]
        if node.op_type == "MatMul":
            return [self._matmul(shapes[0], shapes[1])]
        if node.op_type == "Range":
            start, limit, step = (self.contents.get(name) for name in node.input)
            if (start, step) == (0, 1) and isinstance(limit, int | str):
                return [[limit]]
            return [[next(self._fresh)]]
        if node.op_type in ("Expand", "ConstantOfShape"):
            return [self._filled(node, first)]
        if first is None:
            return []
        if node.op_type == "Transpose":
            order = _attribute(node, "perm", list(reversed(range(len(first)))))
            return [[first[axis] for axis in order]]
        if node.op_type == "Split":
            return self._split(node, first)
        if node.op_type == "Gather" and shapes[1] is not None:
            axis = _attribute(node, "axis", 0) % len(first)
            return [first[:axis] + shapes[1] + first[axis + 1 :]]
        if node.op_type == "GatherElements":
            return [shapes[1]]
        if node.op_type == "GatherND" and shapes[1] is not None and isinstance(shapes[1][-1], int):
            behind = _attribute(node, "batch_dims", 0) + shapes[1][-1]
            return [shapes[1][:-1] + first[behind:]]
        if node.op_type == "Concat" and None not in shapes:
            axis = _attribute(node, "axis", 0) % len(first)
            total = _sum([shape[axis] for shape in shapes if shape is not None])
            return [first[:axis] + (total,) + first[axis + 1 :]]
        if node.op_type in REDUCTIONS:
            return [self._reduce(node, first)]
        if node.op_type in ("Unsqueeze", "Squeeze"):
            return [self._change_rank(node, first)]
        if node.op_type == "Slice":
            return [self._cut(node, first)]
        if node.op_type == "TopK":
            counts = self.contents.get(node.input[1])
            count = counts[0] if isinstance(counts, tuple) else next(self._fresh)
            axis = _attribute(node, "axis", -1) % len(first)
            return [first[:axis] + (count,) + first[axis + 1 :]] * 2
        return []

    def _broadcast(self, shapes: Sequence[Sizes | None]) -> Sizes | None:
        known_shapes = [shape for shape in shapes if shape is not None]
        if len(known_shapes) < len(shapes):
            return None
        rank = max(len(shape) for shape in known_shapes)
        padded = [(1,) * (rank - len(shape)) + shape for shape in known_shapes]
        return tuple(self._common_size(set(sizes) - {1}) for sizes in zip(*padded, strict=True))

    def _common_size(self, sizes: set[Size]) -> Size:
        if len(sizes) <= 1:
            return sizes.pop() if sizes else 1
        numbers = [size for size in sizes if isinstance(size, int)]
        return numbers[0] if numbers else next(self._fresh)

    def _reshape(self, node: "onnx.NodeProto", shape: Sizes | None) -> list[Size] | None:
        wanted = self.contents.get(node.input[1])
        if not isinstance(wanted, tuple):
            rank = self.shapes.get(node.input[1], (None,))[0]
            return [next(self._fresh) for _ in range(rank)] if isinstance(rank, int) else None
        copies = not _attribute(node, "allowzero", 0)
        sizes = []
        for axis, size in enumerate(wanted):
            if size == 0 and copies:
                size = -1 if shape is None else shape[axis]
            sizes.append(next(self._fresh) if size == -1 else size)
        return sizes

    def _matmul(self, left: Sizes | None, right: Sizes | None) -> Sizes | None:
        if left is None or right is None or min(len(left), len(right)) < 2:
            return None
        batch = self._broadcast([left[:-2], right[:-2]])
        return None if batch is None else (*batch, left[-2], right[-1])

    def _filled(self, node: "onnx.NodeProto", shape: Sizes | None) -> Sizes | None:
        if node.op_type == "ConstantOfShape":
            wanted = self.contents.get(node.input[0])
            return wanted if isinstance(wanted, tuple) else None
        wanted = self.contents.get(node.input[1])
        return self._broadcast([shape, wanted]) if isinstance(wanted, tuple) else None

    def _cut(self, node: "onnx.NodeProto", shape: Sizes) -> list[Size]:
        starts, ends, *optional_inputs = [self.contents.get(name) for name in node.input[1:]]
        axes_and_steps = [numbers for numbers in optional_inputs if _is_numbers(numbers)]
        if not (isinstance(starts, tuple) and isinstance(ends, tuple) and optional_inputs) or len(
            axes_and_steps
        ) < len(optional_inputs):
            return [next(self._fresh) for _ in shape]
        axes, *given = axes_and_steps
        steps = given[0] if given else (1,) * len(axes)
        sizes = list(shape)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            size = sizes[axis]
            if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
                sizes[axis] = len(range(size)[start:end:step])
            elif (start, step) != (0, 1) or not isinstance(end, int) or end < UNLIMITED:
                sizes[axis] = next(self._fresh)
        return sizes

    def _split(self, node: "onnx.NodeProto", shape: Sizes) -> list[Sizes]:
        axis = _attribute(node, "axis", 0) % len(shape)
        is_even = len(node.input) == 1
        sizes = None if is_even else self.contents.get(node.input[1])
        if not isinstance(sizes, tuple):
            size = shape[axis]
            split_size = None
            if is_even and isinstance(size, int) and size % len(node.output) == 0:
                split_size = size // len(node.output)
            sizes = [split_size or next(self._fresh) for _ in node.output]
        return [shape[:axis] + (size,) + shape[axis + 1 :] for size in sizes]

    def _reduce(self, node: "onnx.NodeProto", shape: Sizes) -> list[Size] | None:
        axes = self.contents.get(node.input[1]) if len(node.input) > 1 else None
        if not _is_numbers(axes):
            return None
        axes = {axis % len(shape) for axis in axes}
        keeps = _attribute(node, "keepdims", 1)
        return [
            1 if axis in axes else size
            for axis, size in enumerate(shape)
            if keeps or axis not in axes
        ]

    def _change_rank(self, node: "onnx.NodeProto", shape: Sizes) -> list[Size] | None:
        axes = self.contents.get(node.input[1]) if len(node.input) > 1 else None
        if not _is_numbers(axes):
            return None
        if node.op_type == "Squeeze":
            axes = {axis % len(shape) for axis in axes}
            return [size for axis, size in enumerate(shape) if axis not in axes]
        rank, sizes = len(shape) + len(axes), iter(shape)
        axes = {axis % rank for axis in axes}
        return [1 if axis in axes else next(sizes) for axis in range(rank)]


def _is_to_integer(cast: "onnx.NodeProto") -> bool:
    from onnx import TensorProto

    return cast.attribute[0].i in (TensorProto.INT32, TensorProto.INT64)


def _attribute(node: "onnx.NodeProto", name: str, default: AttributeValue) -> AttributeValue:
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _gather(sizes: Content, indices: Content) -> Content | None:
    if not isinstance(sizes, tuple):
        return None
    if _is_numbers(indices):
        return tuple(sizes[index] for index in indices)
    return sizes[indices] if isinstance(indices, int) else None


def _slice(sizes: Content, bounds: Sequence[Content | None]) -> Sizes | None:
    """Returns a part of a vector. The bounds are starts and ends, and optionally axes and steps."""
    numbers = [bound for bound in bounds if _is_numbers(bound)]
    if not isinstance(sizes, tuple) or len(numbers) < len(bounds):
        return None
    starts, ends, axes, steps = [*numbers, *[(0,), (1,)][len(numbers) - 2 :]]
    return sizes[starts[0] : ends[0] : steps[0]] if axes == (0,) else None


def _is_numbers(content: Content | None) -> TypeGuard[tuple[int, ...]]:
    """Returns whether a content is a vector of known numbers."""
    return isinstance(content, tuple) and all(isinstance(size, int) for size in content)


def _product(sizes: Iterable[Size]) -> Size:
    number, names = 1, []
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            names.append(size)
    if not names or number == 0:
        return number
    return "*".join(sorted(names) + ([str(number)] if number != 1 else []))


def _sum(sizes: Sequence[Size]) -> Size:
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == len(sizes):
        return sum(numbers)
    return f"({'+'.join(str(size) for size in sizes)})"
