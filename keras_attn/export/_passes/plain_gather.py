from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.patterns import match

if TYPE_CHECKING:
    import onnx

WRAPPED = ("Where", ("Less", ("Cast", "x"), "zero"), ("Add", "x", "size"), "x")


def plain_gather(model: "onnx.ModelProto") -> None:
    """Removes the conversion of negative indices before `Gather`.

    Keras adds the size of the axis to negative indices, but `Gather` of ONNX supports negative
    indices. The pass expects all constants in the main graph.

    Args:
        model: `onnx.ModelProto` with unique names; changed in place.
    """
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = [node for graph in nested_graphs(model.graph) for node in graph.node]
    producers = {name: node for node in nodes for name in node.output}

    def is_number(name: str, number: int) -> bool:
        tensor = constants.get(name)
        return tensor is not None and (numpy_helper.to_array(tensor) == number).all()

    for node in nodes:
        if node.op_type != "Gather" or node.input[0] not in constants:
            continue
        names = match(WRAPPED, node.input[1], producers)
        axis = node.attribute[0].i if node.attribute else 0
        size = constants[node.input[0]].dims[axis]
        if names and is_number(names["zero"], 0) and is_number(names["size"], size):
            node.input[1] = names["x"]
