from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._passes.graph import copy_of, nested_graphs
from keras_attn.export._passes.remove_unused import remove_unused

if TYPE_CHECKING:
    import onnx

LARGEST = 127
"""Maximum absolute value of the 8-bit numbers of a table that is only looked up."""

MIN_SIZE = 2**14
"""Minimum number of values of a table. Smaller tables, for instance of biases of relative
positions, remain in float32, because they save little memory and their values add up."""


def int8_embeddings(
    model: "onnx.ModelProto", rows: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Stores the tables of embedding lookups in 8 bits, with one scale for each row.

    Only the rows that are looked up become floats:

        e_ij ~ s_i v_ij,  v_ij an integer in [-127, 127],  s_i = max_j |e_ij| / 127

    All operators are in the standard domain. The pass expects unique names and all constants in the
    main graph.

    Args:
        model: `onnx.ModelProto`; changed in place.
        rows: Dict from the name of a table to the names of its integers, int8 `(rows, columns)`,
            and its scales, float32 `(rows,)`, for tables that the model already stores in 8 bits
            because a matrix product reads them too. Defaults to no tables.
    """
    from onnx import TensorProto, helper, numpy_helper

    rows = dict(rows or {})
    tables = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
        if tensor.name in rows or np.prod(tensor.dims) >= MIN_SIZE
    }

    def names_of(table: str) -> tuple[str, str]:
        if table not in rows:
            rows[table] = row_names(table)
            quantized = quantize_rows(numpy_helper.to_array(tables[table]), LARGEST)
            for name, array in zip(rows[table], quantized, strict=True):
                model.graph.initializer.append(numpy_helper.from_array(array, name))
        return rows[table]

    def lookup(gather: "onnx.NodeProto") -> "list[onnx.NodeProto]":
        integers, scales = names_of(gather.input[0])
        indices, result = gather.input[1], gather.output[0]
        name = f"{result}/{{}}".format
        return [
            helper.make_node("Gather", [integers, indices], [name("integers")], axis=0),
            helper.make_node("Cast", [name("integers")], [name("floats")], to=TensorProto.FLOAT),
            helper.make_node("Gather", [scales, indices], [name("scales")], axis=0),
            helper.make_node("Unsqueeze", [name("scales"), last_axis], [name("columns")]),
            helper.make_node("Mul", [name("floats"), name("columns")], [result]),
        ]

    def is_lookup_of_table(node: "onnx.NodeProto") -> bool:
        return is_lookup(node) and node.input[0] in tables

    last_axis = "int8_embeddings/last_axis"
    graphs = list(nested_graphs(model.graph))
    if not any(is_lookup_of_table(node) for graph in graphs for node in graph.node):
        return
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1], "int64"), last_axis))
    for graph in reversed(graphs):  # inner graphs first, because outer graphs copy them
        nodes = [
            new
            for node in graph.node
            for new in (lookup(node) if is_lookup_of_table(node) else [copy_of(node)])
        ]
        del graph.node[:]
        graph.node.extend(nodes)
    remove_unused(model)


def row_names(table: str) -> tuple[str, str]:
    """Returns the names of the integers and the scales of a table of embeddings."""
    return f"{table}/int8_rows", f"{table}/int8_row_scales"


def is_lookup(node: "onnx.NodeProto") -> bool:
    """Returns whether a node looks up rows: a `Gather` along the first axis."""
    if node.op_type != "Gather":
        return False
    return all(attribute.name != "axis" or attribute.i == 0 for attribute in node.attribute)


def quantize_rows(matrix: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes a matrix with one scale for each row.

    Args:
        matrix: Float32 array `(rows, columns)`.
        largest: Int, the maximum absolute value of the integers, at most 127.

    Returns:
        Tuple of the integers, int8 `(rows, columns)`, and the scales, float32 `(rows,)`.
    """
    peaks = np.abs(matrix).max(axis=1, initial=0)
    scales = np.where(peaks > 0, peaks, 1).astype("float32") / np.float32(largest)
    return np.rint(matrix / scales[:, None]).astype("int8"), scales
