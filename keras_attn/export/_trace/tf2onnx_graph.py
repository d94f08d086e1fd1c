"""Types for the tf2onnx classes that operator conversions use. tf2onnx itself has none."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import onnx


class Node(Protocol):
    """Node of a graph: a TensorFlow operator before its conversion, an ONNX operator after it."""

    name: str
    type: str

    @property
    def input(self) -> list[str]: ...

    @property
    def output(self) -> list[str]: ...

    @property
    def inputs(self) -> "list[Node]": ...

    @property
    def output_shapes(self) -> list[list[int] | None]: ...

    @property
    def output_dtypes(self) -> list[int]: ...

    def get_attr(self, name: str) -> "onnx.AttributeProto": ...

    def get_attr_value(self, name: str, default: object = None) -> Any: ...

    def set_attr(self, name: str, value: object) -> None: ...

    def is_const(self) -> bool: ...

    def get_tensor_value(self, as_list: bool = True) -> Any: ...


class Graph(Protocol):
    """Graph whose nodes the conversions replace. Values have names."""

    def get_rank(self, name: str, /) -> int | None: ...

    def get_shape(self, name: str, /) -> list[int] | None: ...

    def get_dtype(self, name: str, /) -> int: ...

    def find_output_consumers(self, name: str, /) -> list[Node]: ...

    def remove_node(self, name: str, /) -> None: ...

    def insert_new_node_on_input(self, node: Node, op_type: str, name: str, /) -> Node: ...

    def make_const(self, name: str, value: np.ndarray, /) -> Node: ...

    def make_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        /,
        *,
        attr: Mapping[str, object] | None = None,
        outputs: Sequence[str] | None = None,
        name: str | None = None,
        shapes: Sequence[Sequence[int] | None] | None = None,
        dtypes: Sequence[int] | None = None,
        op_name_scope: str | None = None,
    ) -> Node: ...


Handler: TypeAlias = Callable[[Graph, Node, str, Sequence[object]], None]
"""Function that converts a node: `(graph, node, name, args)`."""

Handlers: TypeAlias = dict[str, tuple[Handler, list[object]]]
"""Argument `custom_op_handlers` of tf2onnx: a function by the name of each TensorFlow operator."""
