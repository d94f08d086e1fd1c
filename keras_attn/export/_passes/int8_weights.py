from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.int8_embeddings import (
    int8_embeddings,
    is_lookup,
    quantize_rows,
    row_names,
)
from keras_attn.export._passes.weight_products import constant_matrices, replace_products

if TYPE_CHECKING:
    import onnx

LARGEST = 64
"""Maximum absolute value of the 8-bit weights. A CPU without VNNI adds two 8-bit products in 16
bits. This sum must not overflow: 2 * 255 * 64 < 2^15."""


LEAST = 1e-30
"""Minimum divisor of a row, so that a row of zeros is not divided by zero."""


def int8_weights(model: "onnx.ModelProto", row_scales: bool = False) -> None:
    """Stores weights and embeddings in 8 bits, and multiplies integers.

    Each output j has a scale s_j, and each input tensor has the scale and zero point of
    `DynamicQuantizeLinear`, computed from its values when the model runs:

        w_ij    ~ s_j v_ij,  v_ij an integer in [-64, 64],  s_j = max_i |w_ij| / 64
        x_i     ~ scale * (q_i - zero_point),  q_i an integer in [0, 255]
        (x W)_j ~ scale * s_j * sum_i (q_i - zero_point) v_ij

    The result of a sentence therefore depends on the other sentences of its batch. With
    `row_scales`, each row of the input has its own scale, max_i |x_i| / 127, and a sentence has the
    same result in every batch.

    A table of embeddings that is also the weight of the logits is stored once: a product with the
    transposed table has one scale for each row of the table. `int8_embeddings` describes lookups.

    All operators are in the standard domain. Without `row_scales`, ONNX Runtime fuses the operators
    of a product into one. See `keras_attn.export._passes.weight_products` for the products that
    remain in float32. The pass expects unique names and all constants in the main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
        row_scales: Bool, whether each row of an input has its own scale. Defaults to `False`.
    """
    from onnx import helper, numpy_helper

    matrix_of = constant_matrices(model)
    table_of = _tied_tables(model)
    quantized, tables = {}, {}
    integer_product = _product_of_rows if row_scales else _product_of_tensor

    def add_constant(name: str, array: np.ndarray) -> None:
        model.graph.initializer.append(numpy_helper.from_array(array, name))

    def quantize(name: str) -> tuple[str, str] | None:
        """Returns the names of integers and scales, or `None` if the matrix is not constant."""
        if name not in quantized:
            matrix = matrix_of(name)
            if matrix is None:
                return None
            quantized[name] = f"{name}/int8", f"{name}/int8_scale"
            integers, scales = quantize_rows(matrix.T, LARGEST)
            add_constant(quantized[name][1], scales / np.float32(127) if row_scales else scales)
            if name in table_of:
                tables[table_of[name]] = integers, scales
            else:
                add_constant(quantized[name][0], np.ascontiguousarray(integers.T))
        return quantized[name]

    def nodes_of_product(
        product: "onnx.NodeProto", graph: "onnx.GraphProto", inputs: dict[str, Sequence[str]]
    ) -> "list[onnx.NodeProto] | None":
        names = quantize(product.input[1])
        return None if names is None else integer_product(product, names[0], names[1], inputs)

    replace_products(model, nodes_of_product)
    stored = {table: row_names(table) for table in tables}
    for table, arrays in tables.items():
        for name, array in zip(stored[table], arrays, strict=True):
            add_constant(name, array)
    for name, (integers, _) in quantized.items():
        if table_of.get(name) in tables:  # ONNX Runtime transposes the integers when it loads
            source = stored[table_of[name]][0]
            model.graph.node.insert(0, helper.make_node("Transpose", [source], [integers]))
    int8_embeddings(model, stored)
    if row_scales and quantized:
        add_constant(ROW_CONSTANTS["axis"], np.array([-1], "int64"))
        add_constant(ROW_CONSTANTS["least"], np.array(LEAST, "float32"))
        add_constant(ROW_CONSTANTS["step"], np.array(1 / 127, "float32"))
        add_constant(ROW_CONSTANTS["zero"], np.array(128, "uint8"))


def int8_weights_of_rows(model: "onnx.ModelProto") -> None:
    """Runs `int8_weights` with one scale for each row of the inputs."""
    int8_weights(model, row_scales=True)


def _tied_tables(model: "onnx.ModelProto") -> dict[str, str]:
    """Returns a dict from transposed matrices to the tables of embeddings that they come from."""
    nodes = [node for graph in nested_graphs(model.graph) for node in graph.node]
    looked_up = {node.input[0] for node in nodes if is_lookup(node)}
    return {
        node.output[0]: node.input[0]
        for node in nodes
        if node.op_type == "Transpose" and node.input[0] in looked_up
    }


def _product_of_tensor(
    product: "onnx.NodeProto", weight: str, scales: str, inputs: dict[str, Sequence[str]]
) -> "list[onnx.NodeProto]":
    """Returns the nodes that replace a `MatMul`.

    `inputs` is a dict from inputs of earlier products to their quantized values; it is extended.
    """
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


ROW_CONSTANTS = {name: f"int8_rows/{name}" for name in ("axis", "least", "step", "zero")}


def _product_of_rows(
    product: "onnx.NodeProto", weight: str, scales: str, inputs: dict[str, Sequence[str]]
) -> "list[onnx.NodeProto]":
    """Returns the nodes that replace a `MatMul`, with a separate scale for each row of the input.

    `MatMulInteger` of ONNX Runtime accepts only one scale and one zero point for all rows.
    Therefore each row is first divided by its largest absolute value, all rows are quantized with
    the same constant scale, and the product is multiplied by the largest absolute values.
    """
    from onnx import TensorProto, helper

    source, result = product.input[0], product.output[0]
    axis, least, step, zero = ROW_CONSTANTS.values()
    name = f"{result}/{{}}".format
    nodes = []
    if source not in inputs:
        inputs[source] = name("quantized"), name("largest")
        nodes += [
            helper.make_node("Abs", [source], [name("absolute")]),
            helper.make_node("ReduceMax", [name("absolute"), axis], [name("maximum")]),
            helper.make_node("Max", [name("maximum"), least], [name("largest")]),
            helper.make_node("Div", [source, name("largest")], [name("relative")]),
            helper.make_node("QuantizeLinear", [name("relative"), step, zero], [name("quantized")]),
        ]
    quantized, largest = inputs[source]
    return nodes + [
        helper.make_node("MatMulInteger", [quantized, weight, zero], [name("integers")]),
        helper.make_node("Cast", [name("integers")], [name("sums")], to=TensorProto.FLOAT),
        helper.make_node("Mul", [name("sums"), scales], [name("of_rows")]),
        helper.make_node("Mul", [name("of_rows"), largest], [result]),
    ]
