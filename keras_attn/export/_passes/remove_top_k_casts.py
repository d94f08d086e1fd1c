from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.patterns import match
from keras_attn.export._passes.value_types import value_types

if TYPE_CHECKING:
    import onnx


def remove_top_k_casts(model: "onnx.ModelProto") -> None:
    """Removes the conversion of integers to floats before `TopK`.

    tf2onnx converts integers to floats before `TopK`, and the results back to integers. But floats
    cannot represent all large integers. To sort in ascending order, TensorFlow negates the numbers
    before and after `TopK`. This pass sets the attribute `largest` of `TopK` to 0 instead. The pass
    expects unique names.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    from onnx import TensorProto, helper

    integers = (TensorProto.INT32, TensorProto.INT64)
    types = value_types(model)
    graphs = list(nested_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    producers = {name: node for node in nodes for name in node.output}
    results = {value.name for graph in graphs for value in graph.output}
    readers = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def is_rounded(name: str) -> bool:
        """Returns whether all nodes that read a value convert it to integers."""
        casts = [
            reader.op_type == "Cast" and reader.attribute[0].i in integers
            for reader in readers.get(name, [])
        ]
        return name not in results and all(casts)

    for node in nodes:
        if node.op_type != "TopK" or types[node.input[0]] != TensorProto.FLOAT:
            continue
        values = node.output[0]
        as_is = match(("Cast", "x"), node.input[0], producers)
        negated = match(("Neg", ("Cast", "x")), node.input[0], producers)
        as_integers = as_is or negated
        if as_integers is None or types[as_integers["x"]] not in integers:
            continue
        if as_is and is_rounded(values):
            node.input[0] = as_integers["x"]
        elif negated and values not in results and len(readers.get(values, [])) == 1:
            (back,) = readers[values]
            if back.op_type != "Neg" or not is_rounded(back.output[0]):
                continue
            attributes = {attribute.name: attribute.i for attribute in node.attribute}
            attributes["largest"] = 1 - attributes.get("largest", 1)
            del node.attribute[:]
            node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
            node.input[0] = as_integers["x"]
            for cast in readers.get(back.output[0], []):
                cast.input[0] = values
