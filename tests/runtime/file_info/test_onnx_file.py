"""Compares the reader of ONNX files with the `onnx` package."""

import collections
import random

import onnx
import pytest
from keras_attn_runtime import ModelFileError
from keras_attn_runtime._file_info.onnx_file import OnnxFile
from onnx import TensorProto, helper

from tests.runtime.endless import endless_model


def nested_model():
    """Returns a graph with weights in a loop, in a constant, in 4 bits, and in a separate file."""
    packed = helper.make_tensor("packed", TensorProto.INT4, [3, 5], [1] * 15)
    outside = onnx.TensorProto(name="outside", data_type=TensorProto.FLOAT16, dims=[7])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="weights")
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["go_on_too"]),
            helper.make_node(
                "Constant", [], ["constant"], value=helper.make_tensor("c", 1, [2, 2], [1.0] * 4)
            ),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("go_on_too", TensorProto.BOOL, [])],
        [packed],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", ""], [], body=body)],
        "graph",
        [helper.make_tensor_value_info("count", TensorProto.INT64, [])],
        [helper.make_tensor_sequence_value_info("pieces", TensorProto.STRING, None)],
        [outside],
    )
    return helper.make_model(graph)


def read(model):
    return OnnxFile.from_bytes(memoryview(model.SerializeToString()))


def test_weights_of_subgraphs_are_counted():
    file = read(nested_model())
    assert file.num_weights == collections.Counter(int4=15, float16=7, float32=4)
    assert file.precision == "int4" and file.has_external_data
    assert [(each.dtype, each.shape) for each in file.outputs] == [("not a tensor", None)]


def test_inputs_and_metadata_are_those_of_the_onnx_package(tokenizer_model):
    model = endless_model(tokenizer_model, prefix=True)
    file = read(model)
    for values, expected in ((file.inputs, model.graph.input), (file.outputs, model.graph.output)):
        assert len(values) == len(expected)
        for value, proto in zip(values, expected, strict=True):
            kind = proto.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
            shape = tuple(each.dim_param or each.dim_value for each in kind.shape.dim)
            assert (value.name, value.dtype, value.shape) == (proto.name, dtype, shape)
    assert file.metadata == {entry.key: entry.value for entry in model.metadata_props}


def test_damaged_bytes_raise_model_file_errors_only(tokenizer_model):
    content = endless_model(tokenizer_model).SerializeToString()[:4000]
    generator = random.Random(1)
    outcomes = collections.Counter()
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(generator.randrange(1, 6)):
            damaged[generator.randrange(200)] = generator.randrange(256)
        try:
            OnnxFile.from_bytes(memoryview(bytes(damaged)))
            outcomes["read"] += 1
        except ModelFileError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 100


@pytest.mark.parametrize(
    "field",
    [b"\x38\x01", b"\x40\x01", b"\x70\x01", b"\x42\x03\x12\x01\x01"],
    ids=["graph", "opset", "metadata", "version"],
)
def test_fields_of_another_wire_type_are_refused(field):
    """A number instead of a message, or bytes instead of a number."""
    content = b"\x42\x02\x10\x12" + b"\x3a\x00"  # an opset and an empty graph
    assert OnnxFile.from_bytes(memoryview(content)).opsets == {"ai.onnx": 18}
    with pytest.raises(ModelFileError, match="Expected a protobuf message. Received: .* in the"):
        OnnxFile.from_bytes(memoryview(content + field))


def test_graphs_without_end_are_refused():
    content = b""
    for _ in range(100):  # GraphProto.node, NodeProto.attribute, AttributeProto.g
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            content = tag + encoded(len(content)) + content
    content = b"\x42\x02\x10\x12" + b"\x3a" + encoded(len(content)) + content
    with pytest.raises(ModelFileError, match="graphs inside of each other"):
        OnnxFile.from_bytes(memoryview(content))


def encoded(number):
    """Returns a number as a protobuf varint."""
    content = bytearray()
    while number > 127:
        content.append(number % 128 + 128)
        number //= 128
    return bytes([*content, number])
