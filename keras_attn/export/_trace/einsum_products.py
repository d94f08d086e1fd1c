"""Converts an einsum to a single matrix product.

The converter of tf2onnx tries every permutation of the letters, which takes minutes for six
letters.
"""

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import TypeAlias

import numpy as np

from keras_attn._backend.private_names import unique_node_name
from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node

Size: TypeAlias = int | tuple[str, int]
"""Size of an axis: a known size, or a tensor and the number of its axis."""


def _einsum(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Replaces an einsum of one or two tensors by sums, a matrix product and a transpose.

    Each axis of two tensors has one of these kinds:

    - batch: an axis of both tensors and of the result;
    - left: an axis of the first tensor and of the result;
    - right: an axis of the second tensor and of the result;
    - contracted: an axis of both tensors, but not of the result;
    - summed: an axis of one tensor only. The tensor is summed over this axis before the product.

    The tensors `(batch ..., left, contracted)` and `(batch ..., contracted, right)` are multiplied.
    Then the axes of the product are transposed to the order of the result.
    """
    equation = node.get_attr_value("equation").decode()
    inputs, outputs = list(node.input), node.output
    shapes, types = node.output_shapes, node.output_dtypes
    terms, result = _labels(equation, [graph.get_rank(tensor) for tensor in inputs])
    graph.remove_node(node.name)
    writer = _Writer(graph, types[0])
    operands = []
    for index, (value, labels) in enumerate(zip(inputs, terms, strict=True)):
        kept = {
            *result,
            *(label for term in terms[:index] + terms[index + 1 :] for label in term),
        }
        sizes = dict(zip(labels, _sizes(graph, value), strict=False))
        operands.append(writer.sum(_Tensor(value, labels, sizes), kept))
    product = operands[0]
    if len(operands) == 2:
        product = writer.product(operands[0], operands[1], result)
    value = writer.transpose(product, result).value
    graph.make_node("Identity", [value], name=name, outputs=outputs, shapes=shapes, dtypes=types)


def _labels(equation: str, ranks: Sequence[int | None]) -> tuple[list[list[str]], list[str]]:
    """Returns the labels of the axes of each tensor and of the result.

    Axes of an ellipsis have numbers as labels, counted from the last axis.
    """
    terms, arrow, result = equation.replace(" ", "").partition("->")
    terms = terms.split(",")
    if not arrow:
        letters = sorted(set("".join(terms)) - {"."})
        result = "".join(letter for letter in letters if "".join(terms).count(letter) == 1)
        result = ("..." if "..." in equation else "") + result
    sizes = []
    for term, rank in zip(terms, ranks, strict=True):
        if "..." not in term:
            sizes.append(0)
        elif rank is None:
            raise ValueError(
                "Expected tensors of known rank in an einsum with an ellipsis. "
                f"Received: equation={equation!r}."
            )
        else:
            sizes.append(rank - len(term) + 3)

    def expanded(term: str, size: int) -> list[str]:
        before, dots, after = term.partition("...")
        numbers = [str(number) for number in reversed(range(size))] if dots else []
        return [*before, *numbers, *after]

    terms = [expanded(term, size) for term, size in zip(terms, sizes, strict=True)]
    for term in terms:
        if len(set(term)) < len(term):
            raise ValueError(
                "Expected different letters for the axes of each tensor of an einsum. "
                f"Received: equation={equation!r}. Take the diagonal with `ops.diagonal`."
            )
    return terms, expanded(result, max(sizes))


def _sizes(graph: Graph, value: str) -> Iterable[Size]:
    """Returns the size of each axis: an int, or a pair (tensor, axis) if the size is unknown."""
    shape = graph.get_shape(value)
    if shape is None:
        rank = graph.get_rank(value)
        shape = None if rank is None else [-1] * rank
    if shape is None:
        return _Unknown(value)
    return [size if size >= 0 else (value, axis) for axis, size in enumerate(shape)]


class _Unknown:
    """Sizes of a tensor of unknown shape."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __iter__(self) -> Iterator[Size]:
        return ((self.value, axis) for axis in count())


class _Tensor:
    """A tensor: its name, the labels of its axes, and a dict of their sizes."""

    def __init__(self, value: str, labels: Sequence[str], sizes: dict[str, Size]) -> None:
        self.value = value
        self.labels = list(labels)
        self.sizes = sizes


class _Writer:
    """Adds nodes to a graph of tf2onnx.

    Args:
        graph: `tf2onnx.graph.Graph`.
        dtype: Type of the tensors.
    """

    def __init__(self, graph: Graph, dtype: int) -> None:
        self.graph = graph
        self.dtype = dtype
        self.shapes: dict[str, str] = {}

    def sum(self, tensor: _Tensor, kept: Container[str]) -> _Tensor:
        """Sums over all axes whose labels are not in `kept`."""
        axes = [axis for axis, label in enumerate(tensor.labels) if label not in kept]
        if not axes:
            return tensor
        value = self._make("ReduceSum", [tensor.value, self._constant(axes)], keepdims=0)
        return _Tensor(value, [label for label in tensor.labels if label in kept], tensor.sizes)

    def product(self, left: _Tensor, right: _Tensor, result: Sequence[str]) -> _Tensor:
        """Returns the product of two tensors. Its axes may be in another order than `result`."""
        both = {*left.labels} & {*right.labels}
        batch = [label for label in result if label in both]
        contracted = [label for label in left.labels if label in both and label not in result]
        rows = [label for label in result if label in left.labels and label not in both]
        columns = [label for label in result if label in right.labels and label not in both]
        if result == [*batch, *columns, *rows] and rows and columns:  # avoids a transposition
            left, right, rows, columns = right, left, columns, rows
        sizes = {**right.sizes, **left.sizes}
        first = self.transpose(left, [*batch, *rows, *contracted])
        second = self.transpose(right, [*batch, *contracted, *columns])
        labels = [*batch, *rows, *columns]
        if not contracted:
            first = self._insert_axes(first, len(first.labels), len(columns))
            second = self._insert_axes(second, len(batch), len(rows))
            return _Tensor(self._make("Mul", [first, second]), labels, sizes)
        # Without batch axes, the left operand of MatMul may have several row axes.
        merged_rows = [rows] if batch or not rows else [[row] for row in rows]
        alone = [[label] for label in batch]
        first = self._merge(first, [*alone, *merged_rows, contracted])
        second = self._merge(second, [*alone, contracted, columns])
        value = self._make("MatMul", [first, second])
        if all(len(group) == 1 for group in [*merged_rows, columns]):
            return _Tensor(value, labels, sizes)
        # Batch axes may have been broadcast, so their sizes are read from the product.
        of_batch = [(value, axis) for axis in range(len(batch))]
        wanted = [[size] for size in [*of_batch, *(sizes[label] for label in [*rows, *columns])]]
        return _Tensor(self._reshape(value, wanted), labels, sizes)

    def transpose(self, tensor: _Tensor, labels: Sequence[str]) -> _Tensor:
        """Returns the tensor with its axes in the given order."""
        if tensor.labels == labels:
            return tensor
        order = [tensor.labels.index(label) for label in labels]
        return _Tensor(self._make("Transpose", [tensor.value], perm=order), labels, tensor.sizes)

    def _merge(self, tensor: _Tensor, groups: Sequence[Sequence[str]]) -> str:
        """Reshapes a tensor to one axis for each group of labels."""
        if all(len(group) == 1 for group in groups):
            return tensor.value
        return self._reshape(
            tensor.value, [[tensor.sizes[label] for label in group] for group in groups]
        )

    def _insert_axes(self, tensor: _Tensor, axis: int, number: int) -> str:
        """Inserts `number` axes of size 1 before `axis`."""
        if not number:
            return tensor.value
        axes = self._constant(list(range(axis, axis + number)))
        return self._make("Unsqueeze", [tensor.value, axes])

    def _reshape(self, value: str, groups: Sequence[Sequence[Size]]) -> str:
        """Reshapes a tensor. Each new size is the product of a group of sizes."""
        known_sizes = [[size for size in group if isinstance(size, int)] for group in groups]
        if sum(map(len, known_sizes)) == sum(map(len, groups)):
            shape = self._constant([math.prod(group) for group in known_sizes])
        else:
            parts = [self._product_of_sizes(group) for group in groups]
            shape = parts[0] if len(parts) == 1 else self._make_integers("Concat", parts, axis=0)
        return self._make("Reshape", [value, shape], allowzero=1)

    def _product_of_sizes(self, group: Sequence[Size]) -> str:
        """Returns the product of sizes as a tensor of one number."""
        known_size = math.prod(size for size in group if isinstance(size, int))
        factors = [self._size(*size) for size in group if not isinstance(size, int)]
        if known_size != 1 or not factors:
            factors.append(self._constant([known_size]))
        product = factors[0]
        for factor in factors[1:]:
            product = self._make_integers("Mul", [product, factor])
        return product

    def _size(self, value: str, axis: int) -> str:
        """Returns the size of an axis as a tensor of one number."""
        if value not in self.shapes:
            self.shapes[value] = self._make_integers("Shape", [value])
        return self._make_integers("Gather", [self.shapes[value], self._constant([axis])], axis=0)

    def _make(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        node = self.graph.make_node(kind, inputs, attr=attributes, dtypes=[self.dtype])
        return node.output[0]

    def _make_integers(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        from onnx import TensorProto

        node = self.graph.make_node(kind, inputs, attr=attributes, dtypes=[TensorProto.INT64])
        return node.output[0]

    def _constant(self, numbers: Sequence[int]) -> str:
        return self.graph.make_const(unique_node_name("einsum"), np.array(numbers, "int64")).output[
            0
        ]


HANDLERS: Handlers = {"Einsum": (_einsum, [])}
"""The argument `custom_op_handlers` of tf2onnx."""
