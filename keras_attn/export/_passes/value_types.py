from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import subgraphs

if TYPE_CHECKING:
    import onnx


def value_types(model: "onnx.ModelProto") -> dict[str, int]:
    """Returns the element type of every value of a model.

    The output of an operator has the type of one of its inputs, or a fixed type. Shapes and
    contents are not read, so the function is fast even if the weights are large.

    Args:
        model: `onnx.ModelProto` with unique names.

    Returns:
        Dict from the names of values to ints, their `onnx.TensorProto.DataType`.
    """
    types = {}
    _read(model.graph, types, model.opset_import[0].version)
    return types


def _read(graph: "onnx.GraphProto", types: dict[str, int], opset: int) -> None:
    types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    for value in graph.input:
        types.setdefault(value.name, value.type.tensor_type.elem_type)
    for node in graph.node:
        bodies = list(subgraphs(node))
        for body in bodies:
            if node.op_type == "Loop":  # inputs 0 and 1 are the iteration number and the condition
                for value, start in zip(body.input[2:], node.input[2:], strict=True):
                    types[value.name] = types[start]
            _read(body, types, opset)
        if bodies:
            # The first output of a loop body is the condition.
            values = bodies[0].output[1 if node.op_type == "Loop" else 0 :]
            results = [types[value.name] for value in values]
        else:
            results = _output_types(node, types, opset)
        types.update(zip(node.output, results, strict=True))


def _output_types(node: "onnx.NodeProto", types: Mapping[str, int], opset: int) -> list[int]:
    from onnx import TensorProto, defs, helper

    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    if node.op_type == "Cast":
        return [attributes["to"]]
    if node.op_type in ("Constant", "ConstantOfShape"):
        tensor = attributes.get("value")
        return [TensorProto.FLOAT if tensor is None else tensor.data_type]
    schema = defs.get_schema(node.op_type, opset, node.domain)
    inputs = zip(_formals(schema.inputs, node.input), node.input, strict=True)
    bound = {formal.type_str: types[name] for formal, name in inputs if name}
    results = []
    for formal in _formals(schema.outputs, node.output):
        if formal.type_str not in bound:
            single, *rest = formal.types  # a fixed type, such as int64 for the indices of TopK
            bound[formal.type_str] = (
                attributes.get("dtype", TensorProto.FLOAT)  # random operators, refused later
                if rest
                else TensorProto.DataType.Value(single[len("tensor(") : -1].upper())
            )
        results.append(bound[formal.type_str])
    return results


def _formals(
    declared: "Sequence[onnx.defs.OpSchema.FormalParameter]", names: Sized
) -> "list[onnx.defs.OpSchema.FormalParameter]":
    """Returns the declaration of each input or output; the last declaration may be variadic."""
    return [declared[min(index, len(declared) - 1)] for index in range(len(names))]
