from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import captured_names, read_names, subgraphs

if TYPE_CHECKING:
    import onnx


def lower_constants(model: "onnx.ModelProto") -> None:
    """Moves constants of the main graph closer to the nodes that read them.

    ONNX Runtime prepacks the weight of a matrix product only if the weight is a constant of the
    graph of the product, or of the graph directly around it. Therefore initializers, and nodes that
    read only initializers, move into inner graphs until they are one level above the node that
    reads them. For instance, a constant that is read only in an inner loop moves into the body of
    the outer loop. The pass expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _lower_in(model.graph)


def _lower_in(graph: "onnx.GraphProto") -> None:
    for holder in list(graph.node):
        for body in subgraphs(holder):
            _lower_into(body, holder, graph)
            _lower_in(body)


def _lower_into(
    body: "onnx.GraphProto", holder: "onnx.NodeProto", graph: "onnx.GraphProto"
) -> None:
    """Moves constants of `graph` into `body`, a subgraph of the node `holder` of `graph`."""
    initializers = {tensor.name for tensor in graph.initializer}
    for node in reversed(_constant_nodes(graph, initializers)):
        if _names_that_must_stay(body, holder, graph).isdisjoint(node.output):
            body.node.insert(0, node)
            graph.node.remove(node)
    read = _names_that_must_stay(body, holder, graph)
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
        body.initializer.add().CopyFrom(tensor)  # `append` fails for tensors of 2 GiB or more
        graph.initializer.remove(tensor)


def _constant_nodes(graph: "onnx.GraphProto", initializers: set[str]) -> "list[onnx.NodeProto]":
    """Returns the nodes that read only initializers, or results of such nodes."""
    constants, nodes = set(initializers), []
    for node in graph.node:
        if node.input and read_names(node) <= constants:
            constants.update(node.output)
            nodes.append(node)
    return nodes


def _names_that_must_stay(
    body: "onnx.GraphProto", holder: "onnx.NodeProto", graph: "onnx.GraphProto"
) -> set[str]:
    """Returns the names of values that cannot move into `body`.

    A value can move only if it is read by graphs inside of `body` and nowhere else.
    """
    read = {value.name for value in [*graph.output, *body.output]} | set(holder.input)
    for node in graph.node:
        if node is not holder:
            read |= read_names(node)
    for sibling in subgraphs(holder):
        if sibling is not body:
            read |= captured_names(sibling)
    # ONNX Runtime folds moved nodes only if their inputs are in the same graph as the nodes.
    constants = {tensor.name for holder in (graph, body) for tensor in holder.initializer}
    constants |= {name for node in _constant_nodes(graph, constants) for name in node.output}
    lowered = {name for node in _constant_nodes(body, constants) for name in node.output}
    for node in body.node:
        if lowered.isdisjoint(node.output):
            read.update(node.input)
    return read
