from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs

if TYPE_CHECKING:
    import onnx


def set_allowzero(model: "onnx.ModelProto") -> None:
    """Allows Reshape to create dimensions of size 0, as in TensorFlow.

    In ONNX, a 0 in the requested shape copies the input's size, unless the attribute `allowzero` of
    the node is set. tf2onnx does not set the attribute, so an empty batch, or a
    key-value cache without entries, would get a wrong shape. This pass sets the attribute. It does
    not change nodes whose shape is a constant with a 0: tf2onnx itself wrote this 0, to copy the
    size of the input.

    Args:
        model: `onnx.ModelProto` with all constants in the main graph; changed in place.
    """
    from onnx import helper, numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for graph in nested_graphs(model.graph):
        for node in graph.node:
            if node.op_type != "Reshape" or node.attribute:
                continue
            shape = constants.get(node.input[1])
            if shape is None or (numpy_helper.to_array(shape) != 0).all():
                node.attribute.append(helper.make_attribute("allowzero", 1))
