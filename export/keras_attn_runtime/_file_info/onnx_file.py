"""Inputs, outputs, metadata and weights in an ONNX file."""

import collections
import math
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Self

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_info.precision import lowest_precision
from keras_attn_runtime._file_info.protobuf import (
    EMPTY,
    Value,
    integer,
    read_fields,
    read_integers,
    read_message,
    signed,
    text,
)
from keras_attn_runtime._file_info.tensor_value import TensorValue

DTYPES = dict(
    enumerate(
        """
        float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64
        complex64 complex128 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz
        uint4 int4 float4e2m1
        """.split(),
        start=1,
    )
)
"""`TensorProto.DataType` in the ONNX specification."""

EXTERNAL = 1
"""Value of `TensorProto.DataLocation` for weights in another file."""

DEEPEST_GRAPH = 32
"""Maximum depth of subgraphs, so that a damaged file cannot exceed Python's recursion limit."""


@dataclass
class OnnxFile:
    """The content of an ONNX file, without its operators.

    Attributes:
        inputs, outputs: lists of `TensorValue`.
        metadata: dict of strings, the `metadata_props`.
        opsets: dict from domain to opset version; the default domain is "ai.onnx".
        producer: string, name and version of the program that wrote the file; may be empty.
        num_weights: `collections.Counter` of elements by dtype, over the graph and all its
            subgraphs.
        matrix_dtypes: set of dtypes, for weights with at least two axes.
        has_external_data: bool, whether weights are in another file.
    """

    inputs: list[TensorValue] = field(default_factory=list[TensorValue])
    outputs: list[TensorValue] = field(default_factory=list[TensorValue])
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    opsets: dict[str, int] = field(default_factory=dict[str, int])
    producer: str = ""
    num_weights: collections.Counter[str] = field(default_factory=collections.Counter[str])
    matrix_dtypes: set[str] = field(default_factory=set[str])
    has_external_data: bool = False

    @property
    def precision(self) -> str | None:
        """The lowest matrix precision, such as "int8"; `None` without matrices."""
        return lowest_precision(self.matrix_dtypes)

    @classmethod
    def from_bytes(cls, content: memoryview) -> Self:
        """Reads a serialized `ModelProto`.

        Args:
            content: memoryview of bytes.

        Raises:
            ModelFileError: if the bytes are not an ONNX model.
        """
        file = cls()
        producer: dict[int, str] = {}
        graph: Value | None = None
        for number, value in read_fields(content):
            if number in (2, 3):  # producer_name, producer_version
                producer[number] = text(value)
            elif number == 7:
                graph = value
            elif number == 8:
                entry = read_message(value)
                domain = text(entry.get(1, EMPTY)) or "ai.onnx"
                file.opsets[domain] = integer(entry.get(2, 0))
            elif number == 14:
                entry = read_message(value)
                file.metadata[text(entry.get(1, EMPTY))] = text(entry.get(2, EMPTY))
        if graph is None or not file.opsets:
            raise ModelFileError(
                "Expected an ONNX file with a graph and opsets. Received: "
                f"has_graph={graph is not None}, opsets={file.opsets}."
            )
        file.producer = " ".join(producer[number] for number in sorted(producer)).strip()
        file._read_graph(graph, depth=0)
        return file

    def _read_graph(self, graph: Value, depth: int) -> None:
        if depth > DEEPEST_GRAPH:
            raise ModelFileError(
                f"Expected at most {DEEPEST_GRAPH} graphs inside of each other. Received: {depth}. "
                "The file is damaged."
            )
        initializers: set[str] = set()
        inputs: list[Value] = []
        outputs: list[Value] = []
        for number, value in read_fields(graph):
            if number == 1:
                self._read_node(value, depth)
            elif number == 5:
                initializers.add(self._read_tensor(value))
            elif number == 11:
                inputs.append(value)
            elif number == 12:
                outputs.append(value)
        if depth == 0:
            self.inputs = [_read_value(value, initializers) for value in inputs]
            self.outputs = [_read_value(value, set()) for value in outputs]

    def _read_node(self, node: Value, depth: int) -> None:
        for number, value in read_fields(node):
            if number == 5:
                for kind, content in read_fields(value):
                    if kind in (5, 10):  # t, tensors
                        self._read_tensor(content)
                    elif kind in (6, 11):  # g, graphs
                        self._read_graph(content, depth + 1)

    def _read_tensor(self, tensor: Value) -> str:
        """Counts the elements in a `TensorProto` and returns its name."""
        dims: list[int] = []
        dtype, name = "undefined", ""
        for number, value in read_fields(tensor):
            if number == 1:
                dims += read_integers(value)
            elif number == 2:
                dtype = _dtype(value)
            elif number == 8:
                name = text(value)
            elif number == 14:
                self.has_external_data |= value == EXTERNAL
        self.num_weights[dtype] += math.prod(dims)
        if len(dims) >= 2:
            self.matrix_dtypes.add(dtype)
        return name


def _read_value(value: Value, initializers: Set[str]) -> TensorValue:
    """Reads a `ValueInfoProto`."""
    entry = read_message(value)
    name = text(entry.get(1, EMPTY))
    kind = read_message(entry.get(2, EMPTY))
    optional = name in initializers
    while 9 in kind:  # optional_type
        optional = True
        kind = read_message(read_message(kind[9]).get(1, EMPTY))
    if 1 not in kind:  # a sequence, a map or a sparse tensor
        return TensorValue(name, "not a tensor", None, optional)
    tensor = read_message(kind[1])
    dtype = _dtype(tensor.get(1, 0))
    shape = None
    if 2 in tensor:
        shape = tuple(_read_axis(axis) for number, axis in read_fields(tensor[2]) if number == 1)
    return TensorValue(name, dtype, shape, optional)


def _dtype(value: Value) -> str:
    return DTYPES.get(integer(value), f"dtype {integer(value)}")


def _read_axis(axis: Value) -> int | str | None:
    """Returns an axis's size, its name if it is dynamic, or `None` if it has neither."""
    for number, value in read_fields(axis):
        if number == 1:
            return signed(value)
        if number == 2:
            return text(value) or None
    return None
