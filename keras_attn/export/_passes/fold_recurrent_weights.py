from itertools import count
from math import prod
from typing import TYPE_CHECKING

from keras_attn.export._passes.constant_values import computation, compute, inputs_of
from keras_attn.export._passes.graph import (
    defined_names,
    nested_graphs,
    rename_values,
)
from keras_attn.export._passes.remove_unused import remove_unused

if TYPE_CHECKING:
    import onnx


def fold_recurrent_weights(model: "onnx.ModelProto") -> None:
    """Stores the weights of LSTM and GRU nodes in the layout of ONNX.

    In the traced graph, these weights are computed from the weights of Keras, which are transposed
    and have another order of gates. This pass computes each weight once and stores it as a
    constant. The constant gets the name of the Keras weight, with a number if other nodes still
    read the Keras weight. The pass expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    graphs = list(nested_graphs(model.graph))
    producers = {name: node for graph in graphs for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    folded, weights = {}, {}
    for graph in graphs:
        for node in graph.node:
            if node.op_type not in ("LSTM", "GRU"):
                continue
            for index, name in list(enumerate(node.input))[1:4]:  # kernel, recurrent kernel, bias
                nodes = computation(name, producers, constants)
                if not nodes:
                    continue
                used = [constants[value] for value in inputs_of(nodes) if value in constants]
                array = compute(name, nodes, used, model)
                content = (array.shape, array.tobytes())
                if content not in folded:
                    folded[content] = f"{name}/folded"
                    weights[folded[content]] = max(used, key=_num_floats).name
                    tensor = numpy_helper.from_array(array, folded[content])
                    model.graph.initializer.append(tensor)
                node.input[index] = folded[content]
    remove_unused(model)
    taken = {name for graph in nested_graphs(model.graph) for name in defined_names(graph)}
    for name, weight in weights.items():
        free = (f"{weight}_{number}" if number else weight for number in count())
        weights[name] = next(free_name for free_name in free if free_name not in taken)
        taken.add(weights[name])
    rename_values(model.graph, weights)


def _num_floats(tensor: "onnx.TensorProto") -> int:
    from onnx import TensorProto

    return prod(tensor.dims) if tensor.data_type == TensorProto.FLOAT else 0
