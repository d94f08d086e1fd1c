import numpy as np
import onnx
from onnx import TensorProto

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.value_types import value_types
from tests.export.small_graphs import BOOL, INT64, constant, graph, model, node, value


def test_the_types_are_those_that_onnx_infers(onnx_model):
    expected = {}
    inferred = onnx.shape_inference.infer_shapes(onnx_model)
    for each in nested_graphs(inferred.graph):
        for known in [*each.value_info, *each.input, *each.output]:
            expected[known.name] = known.type.tensor_type.elem_type
    received = value_types(onnx_model)
    assert len(expected) > 200
    assert expected == {name: received[name] for name in expected}


def test_every_operator_gives_its_type():
    """A loop state has the type of its initial value; a branch has the type of its result."""
    branches = {
        f"{name}_branch": graph(
            [node("Cast", "x", name, to=TensorProto.FLOAT16)], [], [value(name, 10)], name=name
        )
        for name in ("then", "else")
    }
    body = graph(
        [node("Identity", "c", "c_out"), node("Identity", "s", "s_out"), node("Shape", "s", "n")],
        [value("i", INT64, []), value("c", BOOL, []), value("s")],
        [value("c_out", BOOL, []), value("s_out"), value("n", INT64)],
        name="body",
    )
    made = model(
        [
            node("TopK", "x two", "values indices"),
            node("Less", "x x", "less"),
            node("ConstantOfShape", "two", "zeros"),
            node("DynamicQuantizeLinear", "x", "bytes scale zero"),
            node("If", "yes", "half", **branches),
            node("Loop", "trips yes x", "state sizes", body=body),
        ],
        [value("x", shape=[5])],
        [value("half", 10, [5]), value("state", shape=[5]), value("sizes", INT64, [3, 1])],
        [constant("two", [2]), constant("trips", 3), constant("yes", np.array(True))],
    )
    names = {name: TensorProto.DataType.Name(type_) for name, type_ in value_types(made).items()}
    assert {name for name, type_ in names.items() if type_ == "FLOAT"} == {
        *("x", "values", "zeros", "scale", "s", "s_out", "state")
    }
    assert {name for name, type_ in names.items() if type_ == "FLOAT16"} == {"then", "else", "half"}
    assert {name for name, type_ in names.items() if type_ == "UINT8"} == {"bytes", "zero"}
    assert {"indices", "sizes", "n", "i"} < {n for n, type_ in names.items() if type_ == "INT64"}
