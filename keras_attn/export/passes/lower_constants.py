from keras_attn.export.passes.graph import captured_names, read_names, subgraphs


def lower_constants(model):
    """Moves constants that only a loop inside of a loop reads into the outer loop.

    ONNX Runtime prepacks a weight of a matrix product if it is a constant of the product's own
    graph or of the one right around it, but not of one further out. So initializers, and nodes that
    compute with initializers alone, go down until they are one level above their reader. Expects
    unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _lower_in(model.graph)


def _lower_in(graph):
    for holder in graph.node:
        for body in subgraphs(holder):
            _lower_nodes(body, holder, graph)
            _lower_initializers(body, holder, graph)
            _lower_in(body)


def _lower_nodes(body, holder, graph):
    constants = {tensor.name for tensor in graph.initializer}
    read = _read_beside(body, holder, graph)
    computed = [
        node
        for node in graph.node
        if node.input and read_names(node) <= constants and read.isdisjoint(node.output)
    ]
    for index, node in enumerate(computed):
        body.node.insert(index, node)
        graph.node.remove(node)


def _lower_initializers(body, holder, graph):
    read = _read_beside(body, holder, graph)
    for tensor in [each for each in graph.initializer if each.name not in read]:
        body.initializer.append(tensor)
        graph.initializer.remove(tensor)


def _read_beside(body, holder, graph):
    """Names that are read in `graph`, but not by a graph inside of `body`."""
    constants = {tensor.name for each in (graph, body) for tensor in each.initializer}
    read = {value.name for value in [*graph.output, *body.output]} | set(holder.input)
    for node in graph.node:
        if node is not holder:
            read |= read_names(node)
    for sibling in subgraphs(holder):
        if sibling is not body:
            read |= captured_names(sibling)
    for node in body.node:
        # One that computes with constants alone will be folded: it has to have them beside it.
        if not read_names(node) <= constants:
            read.update(node.input)
    return read
