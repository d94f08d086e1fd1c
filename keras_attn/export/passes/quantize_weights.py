from keras_attn.export.passes.constant_values import computation, compute, inputs_of
from keras_attn.export.passes.graph import copy_of, nested_graphs
from keras_attn.export.passes.remove_unused import remove_unused

LARGEST = 64
"""Of the 8-bit weights. Without VNNI a CPU adds two products of 8 bits in 16, which must not
overflow: 2 * 255 * 64 < 2^15."""


def quantize_weights(model):
    """Stores the weights of matrix products in 8 bits, and multiplies integers.

    With one scale s_j for each output j, and for each input tensor the scale and zero point of
    `DynamicQuantizeLinear`, chosen from its values when the model runs:

        w_ij ~ s_j v_ij,  v_ij an integer in [-64, 64],  s_j = max_i |w_ij| / 64
        x W  ~ scale * s_j * sum_i (q_i - zero_point) v_ij

    Operators of the standard domain, which ONNX Runtime joins to one. Products of two tensors that
    both depend on the input, as in attention, stay in float32; so do LSTM and GRU, convolutions and
    lookups. Expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    graphs = list(nested_graphs(model.graph))
    producers = {name: node for graph in graphs for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    quantized = {}

    def quantize(name):
        """Names of the integers and of their scales, or `None` if they are not constant."""
        if name not in quantized:
            nodes = computation(name, producers, constants)
            if nodes is None:
                return None
            used = [constants[each] for each in inputs_of(nodes) if each in constants]
            array = compute(name, nodes, used, model) if nodes else None
            array = numpy_helper.to_array(constants[name]) if array is None else array
            if array.ndim != 2 or array.dtype != "float32":
                return None
            integers, scales = _quantize(array)
            quantized[name] = f"{name}/int8", f"{name}/scale"
            for tensor_name, values in zip(quantized[name], (integers, scales), strict=True):
                model.graph.initializer.append(numpy_helper.from_array(values, tensor_name))
        return quantized[name]

    for graph in reversed(graphs):  # inner ones first: the outer ones are made anew with them
        nodes, inputs = [], {}
        for node in graph.node:
            names = quantize(node.input[1]) if node.op_type == "MatMul" else None
            if names is None:
                nodes.append(copy_of(node))
            else:
                nodes.extend(_integer_product(node, *names, inputs))
        del graph.node[:]
        graph.node.extend(nodes)
    remove_unused(model)


def _quantize(weight):
    """Integers int8 `(inputs, outputs)` and scales float32 `(outputs,)` of a matrix."""
    import numpy as np

    largest = np.abs(weight).max(axis=0, initial=0)
    scales = np.where(largest > 0, largest, 1).astype("float32") / np.float32(LARGEST)
    return np.rint(weight / scales).astype("int8"), scales


def _integer_product(node, weight, scales, inputs):
    """The nodes in place of a `MatMul`; `inputs` are those of the graph that are quantized."""
    from onnx import TensorProto, helper

    source, result = node.input[0], node.output[0]
    nodes = []
    if source not in inputs:
        inputs[source] = [f"{result}/{part}" for part in ("quantized", "scale", "zero_point")]
        nodes.append(helper.make_node("DynamicQuantizeLinear", [source], inputs[source]))
    quantized, scale, zero_point = inputs[source]
    name = f"{result}/{{}}".format
    nodes += [
        helper.make_node("MatMulInteger", [quantized, weight, zero_point], [name("integers")]),
        helper.make_node("Cast", [name("integers")], [name("sums")], to=TensorProto.FLOAT),
        helper.make_node("Mul", [scale, scales], [name("scales")]),
        helper.make_node("Mul", [name("sums"), name("scales")], [result]),
    ]
    return nodes
