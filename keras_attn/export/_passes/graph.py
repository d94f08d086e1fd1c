"""Helpers for nested ONNX graphs."""

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message

MessageType = TypeVar("MessageType", bound="Message")


def subgraphs(node: "onnx.NodeProto") -> "Iterator[onnx.GraphProto]":
    """Yields the graphs of a control flow node: the body of a Loop, the branches of an If."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nested_graphs(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    """Yields `graph` and all graphs inside of it, outer graphs first."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from nested_graphs(inner)


def defined_names(graph: "onnx.GraphProto") -> set[str]:
    """Returns the names of the values that `graph` itself defines, without nested graphs."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(name for node in graph.node for name in node.output)
    return names - {""}


def all_names(model: "onnx.ModelProto") -> set[str]:
    """Returns the names of all values of a model, including nested graphs."""
    return set().union(*map(defined_names, nested_graphs(model.graph)))


def unused(name: str, taken: Container[str]) -> str:
    """Returns `name`, with a number appended if `name` is in `taken`."""
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}__{count}", count + 1
    return candidate


def read_names(node: "onnx.NodeProto") -> set[str]:
    """Returns the names of all values that a node reads or that its subgraphs capture."""
    names = set(node.input) - {""}
    for graph in subgraphs(node):
        names |= captured_names(graph)
    return names


def captured_names(graph: "onnx.GraphProto") -> set[str]:
    """Returns the names of the values that a subgraph reads from outer graphs."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names |= read_names(node)
    return names - defined_names(graph)


def copy_of(message: MessageType) -> MessageType:
    """Returns an independent copy of a protobuf message.

    A message in a repeated field becomes invalid when the field is cleared; the copy does not.
    """
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def drop_initializers(graph: "onnx.GraphProto", names: Container[str]) -> None:
    """Removes initializers in place, without copying the remaining ones, which may be large."""
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name in names:
            del graph.initializer[index]


def rename_values(graph: "onnx.GraphProto", names: Mapping[str, str]) -> None:
    """Renames values wherever they are defined or read, in `graph` and all nested graphs.

    Args:
        graph: `onnx.GraphProto` with unique names; changed in place.
        names: Dict from old to new names.
    """
    for inner in nested_graphs(graph):
        for value in [*inner.input, *inner.output, *inner.value_info, *inner.initializer]:
            value.name = names.get(value.name, value.name)
        for node in inner.node:
            for values in (node.input, node.output):
                for index, name in enumerate(values):
                    if name in names:
                        values[index] = names[name]


def return_own_values(graph: "onnx.GraphProto") -> None:
    """Makes a subgraph return only values that it defines itself, as ONNX Runtime requires."""
    from onnx import helper

    local_names = defined_names(graph)
    for output in graph.output:
        if output.name not in local_names:
            returned = f"{graph.name}/returned/{output.name}"
            while returned in local_names:
                returned += "_"
            graph.node.append(helper.make_node("Identity", [output.name], [returned]))
            local_names.add(returned)
            output.name = returned
