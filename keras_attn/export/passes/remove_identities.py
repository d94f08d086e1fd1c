from keras_attn.export.passes.graph import nested_graphs, rename_values


def remove_identities(model):
    """Removes the Identity nodes that only give a second name to a value.

    An Identity stays where it defines an output of its graph: such a value must be made there.
    Expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    names = {}
    for graph in nested_graphs(model.graph):
        outputs = {value.name for value in graph.output}
        kept = []
        for node in graph.node:
            if node.op_type == "Identity" and node.output[0] not in outputs:
                names[node.output[0]] = node.input[0]
            else:
                copy = type(node)()
                copy.CopyFrom(node)
                kept.append(copy)
        if len(kept) < len(graph.node):
            del graph.node[:]
            graph.node.extend(kept)
    for name in names:
        while names[name] in names:
            names[name] = names[names[name]]
    rename_values(model.graph, names)
