"""Infers the shapes of the values of a model without running the model."""

import itertools
from typing import TYPE_CHECKING, Any

from keras_attn.export.passes.graph import subgraphs

if TYPE_CHECKING:
    import onnx

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
        self.shapes, self.contents = {}, {}
        self._fresh = (f"?{number}" for number in itertools.count())
        self._read_constants(model.graph)
        for value in model.graph.input:
            self._read_type(value)
        self._read_nodes(model.graph)

    def _read_constants(self, graph):
        from onnx import TensorProto, numpy_helper

        for tensor in graph.initializer:
            self.shapes[tensor.name] = tuple(tensor.dims)
            is_integer = tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
            if is_integer and len(tensor.dims) <= 1 and sum(tensor.dims) <= 16:
                array = numpy_helper.to_array(tensor)
                self.contents[tensor.name] = tuple(array.tolist()) if array.ndim else int(array)

    def _read_type(self, value):
        """Stores the declared shape of an input of a graph."""
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            self.shapes[value.name] = tuple(
                size.dim_value if size.HasField("dim_value") else next(self._fresh)
                for size in tensor.shape.dim
            )

    def _read_nodes(self, graph):
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

    def _read_contents(self, node):
        inputs: list[Any] = [self.contents.get(name) for name in node.input]
        result = None
        if node.op_type == "Shape" and not node.attribute:
            result = self.shapes.get(node.input[0])
        elif not inputs or inputs[0] is None:
            return
        elif node.op_type == "Identity" or node.op_type == "Cast" and _is_to_integer(node):
            result = inputs[0]
        elif node.op_type == "Gather" and inputs[1] is not None:
            result = _gather(*inputs)
        elif node.op_type == "Slice" and all(each is not None for each in inputs):
            result = _slice(*inputs)
        elif node.op_type == "Squeeze" and isinstance(inputs[0], tuple) and len(inputs[0]) == 1:
            result = inputs[0][0]
        elif node.op_type == "Unsqueeze" and not isinstance(inputs[0], tuple):
            result = (inputs[0],) if inputs[1:] in ([(0,)], [(-1,)]) else None
        elif node.op_type == "Concat" and all(isinstance(each, tuple) for each in inputs):
            result = sum(inputs, ())
        elif node.op_type == "ReduceProd" and isinstance(inputs[0], tuple):
            keeps = _attribute(node, "keepdims", 1)
            result = (_product(inputs[0]),) if keeps else _product(inputs[0])
        elif node.op_type == "Mul" and not any(isinstance(each, tuple | None) for each in inputs):
            result = _product(inputs)
        if result is not None:
            self.contents[node.output[0]] = result

    # Shapes.

    def _output_shapes(self, node):
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
            return [self._matmul(*shapes)]
        if node.op_type == "Range":
            start, limit, step = (self.contents.get(name) for name in node.input)
            return [[limit if (start, step) == (0, 1) and limit is not None else next(self._fresh)]]
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
        if node.op_type == "GatherND" and shapes[1] is not None and _are_numbers(shapes[1][-1]):
            behind = _attribute(node, "batch_dims", 0) + shapes[1][-1]
            return [shapes[1][:-1] + first[behind:]]
        if node.op_type == "Concat" and all(shape is not None for shape in shapes):
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
            count = self.contents.get(node.input[1], (next(self._fresh),))[0]
            axis = _attribute(node, "axis", -1) % len(first)
            return [first[:axis] + (count,) + first[axis + 1 :]] * 2
        return []

    def _broadcast(self, shapes):
        if any(shape is None for shape in shapes):
            return None
        rank = max(len(shape) for shape in shapes)
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        return tuple(self._common_size(set(sizes) - {1}) for sizes in zip(*padded, strict=True))

    def _common_size(self, sizes):
        if len(sizes) <= 1:
            return sizes.pop() if sizes else 1
        numbers = [size for size in sizes if isinstance(size, int)]
        return numbers[0] if numbers else next(self._fresh)

    def _reshape(self, node, shape):
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

    def _matmul(self, left: Any, right: Any) -> Any:
        if left is None or right is None or min(len(left), len(right)) < 2:
            return None
        batch: Any = self._broadcast([left[:-2], right[:-2]])
        return (*batch, left[-2], right[-1])

    def _filled(self, node, shape):
        if node.op_type == "ConstantOfShape":
            return self.contents.get(node.input[0])
        wanted = self.contents.get(node.input[1])
        return None if wanted is None else self._broadcast([shape, wanted])

    def _cut(self, node, shape):
        arguments: list[Any] = [self.contents.get(name) for name in node.input[1:]]
        if len(arguments) < 3 or None in arguments:
            return [next(self._fresh) for _ in shape]
        starts, ends, axes = arguments[:3]
        steps = arguments[3] if len(arguments) > 3 else (1,) * len(axes)
        sizes = list(shape)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            if isinstance(sizes[axis], int) and isinstance(start, int) and isinstance(end, int):
                sizes[axis] = len(range(sizes[axis])[start:end:step])
            elif (start, step) != (0, 1) or not isinstance(end, int) or end < UNLIMITED:
                sizes[axis] = next(self._fresh)
        return sizes

    def _split(self, node, shape):
        axis = _attribute(node, "axis", 0) % len(shape)
        is_even = len(node.input) == 1
        sizes = None if is_even else self.contents.get(node.input[1])
        if sizes is None:
            size = shape[axis]
            even = is_even and isinstance(size, int) and size % len(node.output) == 0
            each = size // len(node.output) if even else None
            sizes = [each or next(self._fresh) for _ in node.output]
        return [shape[:axis] + (size,) + shape[axis + 1 :] for size in sizes]

    def _reduce(self, node, shape):
        axes = self.contents.get(node.input[1]) if len(node.input) > 1 else None
        if axes is None:
            return None
        axes = {axis % len(shape) for axis in axes}
        keeps = _attribute(node, "keepdims", 1)
        return [
            1 if axis in axes else size
            for axis, size in enumerate(shape)
            if keeps or axis not in axes
        ]

    def _change_rank(self, node, shape):
        axes = self.contents.get(node.input[1]) if len(node.input) > 1 else None
        if axes is None:
            return None
        if node.op_type == "Squeeze":
            axes = {axis % len(shape) for axis in axes}
            return [size for axis, size in enumerate(shape) if axis not in axes]
        rank, sizes = len(shape) + len(axes), iter(shape)
        axes = {axis % rank for axis in axes}
        return [1 if axis in axes else next(sizes) for axis in range(rank)]


def _is_to_integer(cast):
    from onnx import TensorProto

    return cast.attribute[0].i in (TensorProto.INT32, TensorProto.INT64)


def _attribute(node, name, default):
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _gather(sizes, indices):
    if not isinstance(sizes, tuple) or not _are_numbers(indices):
        return None
    if isinstance(indices, tuple):
        return tuple(sizes[index] for index in indices)
    return sizes[indices]


def _slice(sizes, starts, ends, axes=(0,), steps=(1,)):
    if not isinstance(sizes, tuple) or axes != (0,) or not _are_numbers(starts + ends + steps):
        return None
    return sizes[starts[0] : ends[0] : steps[0]]


def _are_numbers(sizes):
    return all(isinstance(size, int) for size in (sizes if isinstance(sizes, tuple) else [sizes]))


def _product(sizes):
    number, names = 1, []
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            names.append(size)
    if not names or number == 0:
        return number
    return "*".join(sorted(names) + ([str(number)] if number != 1 else []))


def _sum(sizes):
    if all(isinstance(size, int) for size in sizes):
        return sum(sizes)
    return f"({'+'.join(str(size) for size in sizes)})"
