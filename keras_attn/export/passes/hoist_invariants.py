from keras_attn.export.passes.graph import (
    copy_of,
    read_names,
    rename_values,
    return_own_values,
    subgraphs,
)

# Different in every iteration although their inputs are not.
_RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


def hoist_invariants(model):
    """Takes out of every Loop what does not change from one iteration to the next.

    tf2onnx makes each tensor that a loop body reads a state of the loop, the weights included. A
    state that the body hands on unchanged (directly, through Identity nodes or through an inner
    loop) becomes a plain reference to the value outside. Then nodes that depend on such values
    alone move in front of the loop. Without it no runtime can prepack or quantise a weight of the
    decoder. Expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    _hoist_in(model.graph)


def _hoist_in(graph):
    nodes = []
    for original in graph.node:
        node = copy_of(original)
        # Inner loops first: what leaves them may leave the outer one too.
        for inner in subgraphs(node):
            _hoist_in(inner)
        after = []
        if node.op_type == "Loop":
            after = _capture_unchanged_states(node)
            nodes.extend(_take_invariant_nodes(node))
        nodes.append(node)
        nodes.extend(after)
    del graph.node[:]
    graph.node.extend(nodes)


def _capture_unchanged_states(loop):
    """Drops the unchanged states; returns nodes that define the loop outputs this takes away."""
    from onnx import helper

    body = loop.attribute[0].g
    states = len(body.input) - 2  # behind the iteration number and the condition
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    unchanged = []
    for index in range(states):
        name = body.output[1 + index].name
        while name in sources:
            name = sources[name]
        if name in (body.input[2 + index].name, loop.input[2 + index]):
            unchanged.append(index)
    names, after = {}, []
    for index in reversed(unchanged):
        outside = loop.input.pop(2 + index)
        names[body.input.pop(2 + index).name] = outside
        body.output.pop(1 + index)
        result = loop.output.pop(index)
        if result:
            after.append(helper.make_node("Identity", [outside], [result]))
    rename_values(body, names)
    return_own_values(body)
    return after


def _take_invariant_nodes(loop):
    """Removes from the body the nodes that read nothing of it, and returns them in order."""
    body = loop.attribute[0].g
    varying = {value.name for value in body.input}
    taken, kept = [], []
    for original in body.node:
        node = copy_of(original)
        if node.op_type in _RANDOM or read_names(node) & varying:
            varying.update(node.output)
            kept.append(node)
        else:
            taken.append(node)
    del body.node[:]
    body.node.extend(kept)
    return_own_values(body)
    return taken
