from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs

if TYPE_CHECKING:
    import onnx

LIMIT = 2 * 10**9
"""Maximum number of bytes of weights in one file. A protobuf message has at most 2^31 bytes."""


def weights_size(model: "onnx.ModelProto") -> int:
    """Returns the size of the weights in a model in bytes, without external weights."""
    graphs = nested_graphs(model.graph)
    return sum(len(tensor.raw_data) for graph in graphs for tensor in graph.initializer)
