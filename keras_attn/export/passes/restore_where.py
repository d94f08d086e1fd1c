from keras_attn.export.passes.graph import nested_graphs
from keras_attn.export.passes.patterns import match

SELECT = ("Add", ("Mul", ("Cast", "chosen"), "x"), ("Mul", ("Cast", ("Not", "chosen")), "y"))


def restore_where(model):
    """Writes a choice between two tensors as `Where`, one operator in place of six.

    tf2onnx makes `chosen * x + (not chosen) * y` of TensorFlow's `where`, which also turns an
    infinity that is not chosen into NaN. Expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    nodes = [node for graph in nested_graphs(model.graph) for node in graph.node]
    producers = {name: node for node in nodes for name in node.output}
    for node in nodes:
        found = match(SELECT, node.output[0], producers) if node.op_type == "Add" else None
        if found is not None:
            node.op_type = "Where"
            node.input[:] = [found["chosen"], found["x"], found["y"]]
