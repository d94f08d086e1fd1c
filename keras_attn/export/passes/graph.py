"""The few things every pass needs to know about nested ONNX graphs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx


def subgraphs(node: "onnx.NodeProto") -> Any:
    """The graphs a control flow node holds: the body of a Loop, the branches of an If."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nested_graphs(graph: "onnx.GraphProto") -> Any:
    """`graph` and all graphs inside it, outer ones first."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from nested_graphs(inner)


def defined_names(graph: "onnx.GraphProto") -> Any:
    """Names of the values that `graph` itself defines, without the graphs inside it."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(name for node in graph.node for name in node.output)
    return names - {""}


def all_names(model: "onnx.ModelProto") -> Any:
    """Names of all values of a model, those of the graphs inside it included."""
    return set().union(*map(defined_names, nested_graphs(model.graph)))


def unused(name: str, taken: Any) -> Any:
    """`name`, with a number behind it if it is taken."""
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}__{count}", count + 1
    return candidate


def read_names(node: "onnx.NodeProto") -> Any:
    """Names of all values a node reads, those captured by the graphs inside it included."""
    names = set(node.input) - {""}
    for graph in subgraphs(node):
        names |= captured_names(graph)
    return names


def captured_names(graph: "onnx.GraphProto") -> Any:
    """Names of the values that a subgraph reads from the graphs around it."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names |= read_names(node)
    return names - defined_names(graph)


def copy_of(message: Any) -> Any:
    """A copy of a protobuf message, which does not change with the list that it stood in."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def drop_initializers(graph: "onnx.GraphProto", names: Any) -> None:
    """Removes initializers in place: the others may be large, and are not copied."""
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name in names:
            del graph.initializer[index]


def rename_values(graph: "onnx.GraphProto", names: Any) -> None:
    """Renames values wherever they are defined or read, in `graph` and in all graphs inside it.

    Args:
        graph: `onnx.GraphProto`; changed in place. Its value names are expected to be unique.
        names: dictionary from old to new name.
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
    """Makes a subgraph return only values that it defines itself, as ONNX Runtime demands."""
    from onnx import helper

    own = defined_names(graph)
    for output in graph.output:
        if output.name not in own:
            returned = f"{graph.name}/returned/{output.name}"
            while returned in own:
                returned += "_"
            graph.node.append(helper.make_node("Identity", [output.name], [returned]))
            own.add(returned)
            output.name = returned
