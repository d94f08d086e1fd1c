from keras_attn.export.passes.weight_products import constant_matrices, replace_products

LARGEST = 64
"""Of the 8-bit weights. Without VNNI a CPU adds two products of 8 bits in 16, which must not
overflow: 2 * 255 * 64 < 2^15."""


def int8_weights(model):
    """Stores the weights of matrix products in 8 bits, and multiplies integers.

    With one scale s_j for each output j, and for each input tensor the scale and zero point of
    `DynamicQuantizeLinear`, chosen from its values when the model runs:

        w_ij ~ s_j v_ij,  v_ij an integer in [-64, 64],  s_j = max_i |w_ij| / 64
        x W  ~ scale * s_j * sum_i (q_i - zero_point) v_ij

    Operators of the standard domain, which ONNX Runtime joins to one. Which products stay in
    float32: see `keras_attn.export.passes.weight_products`. Expects unique names and all constants
    in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import numpy_helper

    matrix_of = constant_matrices(model)
    quantized = {}

    def quantize(name):
        """Names of the integers and of their scales, or `None` if they are not constant."""
        if name not in quantized:
            matrix = matrix_of(name)
            if matrix is None:
                return None
            quantized[name] = f"{name}/int8", f"{name}/int8_scale"
            for tensor_name, values in zip(quantized[name], _quantize(matrix), strict=True):
                model.graph.initializer.append(numpy_helper.from_array(values, tensor_name))
        return quantized[name]

    def nodes_of_product(product, graph, inputs):
        names = quantize(product.input[1])
        return None if names is None else _integer_product(product, *names, inputs)

    replace_products(model, nodes_of_product)


def _quantize(weight):
    """Integers int8 `(inputs, outputs)` and scales float32 `(outputs,)` of a matrix."""
    import numpy as np

    largest = np.abs(weight).max(axis=0, initial=0)
    scales = np.where(largest > 0, largest, 1).astype("float32") / np.float32(LARGEST)
    return np.rint(weight / scales).astype("int8"), scales


def _integer_product(product, weight, scales, inputs):
    """The nodes in place of a `MatMul`; `inputs` are those of the graph that are quantized."""
    from onnx import TensorProto, helper

    source, result = product.input[0], product.output[0]
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
