from keras_attn.export.passes.graph import nested_graphs
from keras_attn.export.passes.patterns import match
from keras_attn.export.passes.value_types import value_types

ASCENDING = ("Neg", ("TopK", ("Neg", ("Cast", "x"))))


def ascending_top_k(model):
    """Sorts integers in ascending order by one operator, which TensorFlow does by three.

    TensorFlow's `top_k` is descending, so the numbers are negated before it and behind it, and
    tf2onnx hands them over as floats. ONNX has an order for each. Expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import TensorProto, helper

    types = value_types(model)
    graphs = list(nested_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    producers = {name: node for node in nodes for name in node.output}
    read = [name for node in nodes for name in node.input]
    read += [value.name for graph in graphs for value in graph.output]
    for node in nodes:
        found = match(ASCENDING, node.input[0], producers) if node.op_type == "Cast" else None
        if found is None or types.get(found["x"]) not in (TensorProto.INT32, TensorProto.INT64):
            continue
        negated = producers[node.input[0]].input[0]
        top_k = producers[negated]
        # Others may read its indices, which stay the same.
        if negated != top_k.output[0] or read.count(negated) != 1:
            continue
        attributes = [each for each in top_k.attribute if each.name != "largest"]
        del top_k.attribute[:]
        top_k.attribute.extend([*attributes, helper.make_attribute("largest", 0)])
        top_k.input[0] = found["x"]
        node.input[0] = top_k.output[0]
