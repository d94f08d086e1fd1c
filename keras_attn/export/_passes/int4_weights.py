from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.int8_embeddings import int8_embeddings
from keras_attn.export._passes.weight_products import constant_matrices, replace_products

if TYPE_CHECKING:
    import onnx

BLOCK = 32
"""Number of consecutive inputs that share a scale. Each output has its own scales."""

OPSET, IR_VERSION = 21, 10
"""The first versions that support 4-bit integers and scales for blocks."""

ACTIVATIONS = frozenset(
    "Clip Elu HardSigmoid LeakyRelu Relu Selu Sigmoid Softplus Softsign Tanh".split()
)
"""Activations that ONNX Runtime fuses with a preceding matrix product, with or without bias."""


def int4_weights(model: "onnx.ModelProto") -> None:
    """Stores the weights of matrix products in 4 bits, and embeddings in 8 bits.

    Each output j and each block b of 32 inputs has one scale, which maps the weight with the
    largest absolute value to -8:

        w_ij ~ s_bj v_ij,  v_ij an integer in [-8, 7],  s_bj = w_mj / -8,  m = argmax_i in b |w_ij|

    This is the format Q4_0 of [ggml](https://github.com/ggml-org/ggml). The standard operator
    `DequantizeLinear` converts the weights to floats. ONNX Runtime fuses `DequantizeLinear` and the
    product into one operator, which reads the 4-bit weights and rounds the inputs to 8 bits in
    blocks of the same size. ONNX Runtime does so only if no other product reads the weights and the
    weights are in the same graph as the product. Therefore weights that several products read are
    stored once for each product. For example, a language model that reads its prompt before the
    search loop stores its weights twice.

    See `keras_attn.export._passes.weight_products` for the products that remain in float32. The
    pass expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place, including its opset.
    """
    from onnx import helper, numpy_helper

    matrix_of = constant_matrices(model)

    def nodes_of_product(
        product: "onnx.NodeProto", graph: "onnx.GraphProto", _: object
    ) -> "list[onnx.NodeProto] | None":
        source, weight = product.input
        matrix = matrix_of(weight)
        if matrix is None:
            return None
        name = f"{product.output[0]}/{{}}".format
        stored, floats = [name("int4"), name("scales")], name("weight")
        for tensor_name, values in zip(stored, _quantize(matrix), strict=True):
            graph.initializer.append(numpy_helper.from_array(values, tensor_name))
        return [
            helper.make_node("DequantizeLinear", stored, [floats], axis=0, block_size=BLOCK),
            helper.make_node("MatMul", [source, floats], product.output),
        ]

    replace_products(model, nodes_of_product)
    int8_embeddings(model)
    for graph in nested_graphs(model.graph):
        _keep_activations_apart(graph)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", OPSET))
    model.ir_version = max(model.ir_version, IR_VERSION)


def _keep_activations_apart(graph: "onnx.GraphProto") -> None:
    """Separates products from activations by a `Sum`, which replaces the `Add` of a bias, if any.

    Otherwise, ONNX Runtime would fuse product, bias and activation before it fuses
    `DequantizeLinear`, and would convert the weights to floats in every step.
    """
    from onnx import helper

    weights = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    products = {node.output[0] for node in graph.node if weights & set(node.input)}
    activated = {name for node in graph.node if node.op_type in ACTIVATIONS for name in node.input}
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if not activated & set(node.output):
            continue
        if node.op_type == "Add" and products & set(node.input):
            node.op_type = "Sum"
        elif products & set(node.output):
            result = node.output[0]
            node.output[0] = f"{result}/product"
            graph.node.insert(index + 1, helper.make_node("Sum", node.output, [result]))


def _quantize(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes a matrix to int4 `(inputs, outputs)` and scales float32 `(blocks, outputs)`."""
    import ml_dtypes

    inputs, outputs = weight.shape
    blocks = np.pad(weight, ((0, -inputs % BLOCK), (0, 0))).reshape(-1, BLOCK, outputs)
    furthest = np.abs(blocks).argmax(axis=1)[:, None]  # (blocks, 1, outputs)
    scales = np.take_along_axis(blocks, furthest, axis=1) / np.float32(-8)
    steps = np.where(scales == 0, 1, scales)
    integers = np.clip(np.rint(blocks / steps), -8, 7).reshape(-1, outputs)[:inputs]
    return integers.astype(ml_dtypes.int4), scales[:, 0]
