from keras_attn.export.passes.graph import copy_of, read_names, subgraphs


def remove_unused(model):
    """Removes nodes and initializers whose values nobody reads.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _remove_nodes(model.graph)
    read = _read_by(model.graph)
    used = [copy_of(tensor) for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(used)


def _remove_nodes(graph):
    read, kept = {value.name for value in graph.output}, []
    for original in reversed(graph.node):
        if not read.intersection(original.output):
            continue
        node = copy_of(original)
        for inner in subgraphs(node):
            _remove_nodes(inner)
        read |= read_names(node)
        kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _read_by(graph):
    names = {value.name for value in graph.output}
    for node in graph.node:
        names |= read_names(node)
    return names
