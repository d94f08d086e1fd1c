from typing import TYPE_CHECKING

from keras_attn.export.passes.graph import captured_names, read_names, subgraphs

if TYPE_CHECKING:
    import onnx


def lower_constants(model: "onnx.ModelProto") -> None:
    """Moves constants that only a nested loop reads into the outer loop.

    ONNX Runtime prepacks a weight of a matrix product only if it is a constant of the graph of the
    product or of the next outer graph. Therefore initializers, and nodes that read only
    initializers, move down until they are one level above the node that reads them. The pass
    expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _lower_in(model.graph)


def _lower_in(graph):
    for holder in list(graph.node):
        for body in subgraphs(holder):
            _lower_into(body, holder, graph)
            _lower_in(body)


def _lower_into(body, holder, graph):
    """Moves constants of `graph` into `body`, a graph of its node `holder`."""
    initializers = {tensor.name for tensor in graph.initializer}
    for node in reversed(_constant_nodes(graph, initializers)):
        if _read_beside(body, holder, graph).isdisjoint(node.output):
            body.node.insert(0, node)
            graph.node.remove(node)
    read = _read_beside(body, holder, graph)
    for tensor in [each for each in graph.initializer if each.name not in read]:
        body.initializer.add().CopyFrom(tensor)  # which `append` cannot with 2 GiB
        graph.initializer.remove(tensor)


def _constant_nodes(graph, initializers):
    """Returns the nodes that read only initializers, or results of such nodes."""
    constants, nodes = set(initializers), []
    for node in graph.node:
        if node.input and read_names(node) <= constants:
            constants.update(node.output)
            nodes.append(node)
    return nodes


def _read_beside(body, holder, graph):
    """Returns the names that are read in `graph`, but not by a graph inside of `body`."""
    read = {value.name for value in [*graph.output, *body.output]} | set(holder.input)
    for node in graph.node:
        if node is not holder:
            read |= read_names(node)
    for sibling in subgraphs(holder):
        if sibling is not body:
            read |= captured_names(sibling)
    # Lowered nodes will be folded, so their inputs must be in the same graph.
    constants = {tensor.name for each in (graph, body) for tensor in each.initializer}
    constants |= {name for node in _constant_nodes(graph, constants) for name in node.output}
    lowered = {name for node in _constant_nodes(body, constants) for name in node.output}
    for node in body.node:
        if lowered.isdisjoint(node.output):
            read.update(node.input)
    return read
