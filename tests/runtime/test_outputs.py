"""Invalid outputs of damaged graphs."""

import numpy as np
import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator
from onnx import TensorProto, helper

from tests.runtime.fake_model import build_model, metadata

OF_TOKENS = ["alignments", "token_log_probs", "top_token_ids", "top_token_log_probs"]
OUTPUTS = ["token_ids", "lengths", "scores", "log_probs", *OF_TOKENS]


def write_damaged(path, tokenizer_model, name, operator, constant=None, **attributes):
    """Writes a model with an additional operator before the output `name`."""
    model = build_model(metadata(tokenizer_model), token_log_probs=True, top_tokens=True)
    for node in model.graph.node:
        for index, output in enumerate(node.output):
            if output == name:
                node.output[index] = "raw"
        for index, input_ in enumerate(node.input):
            if input_ == name:
                node.input[index] = "raw"
    inputs = ["raw"]
    if constant is not None:
        kind = helper.np_dtype_to_tensor_dtype(constant.dtype)
        model.graph.initializer.append(
            helper.make_tensor("damage", kind, constant.shape, constant.flatten())
        )
        inputs.append("damage")
    model.graph.node.append(helper.make_node(operator, inputs, [name], **attributes))
    (output,) = [each for each in model.graph.output if each.name == name]
    output.type.tensor_type.ClearField("shape")
    if operator == "Cast":
        output.type.tensor_type.elem_type = attributes["to"]
    onnx.save(model, path)
    return path


def refusal(path):
    with pytest.raises(ModelFileError) as caught:
        Translator(path)(["some text"])
    return str(caught.value)


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_of_wrong_type(tmp_path, tokenizer_model, name):
    is_integer = name in ("token_ids", "lengths", "top_token_ids")
    wrong = TensorProto.FLOAT if is_integer else TensorProto.INT32
    path = write_damaged(tmp_path / "model.onnx", tokenizer_model, name, "Cast", to=wrong)
    assert f"output '{name}'" in refusal(path)


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_of_wrong_rank(tmp_path, tokenizer_model, name):
    last = np.array([-1], "int64")
    path = write_damaged(tmp_path / "model.onnx", tokenizer_model, name, "Unsqueeze", last)
    assert f"output '{name}'" in refusal(path) and "rank" in refusal(path)


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_for_another_number_of_hypotheses(tmp_path, tokenizer_model, name):
    only_first = np.array([0], "int64")
    path = write_damaged(
        tmp_path / "model.onnx", tokenizer_model, name, "Gather", only_first, axis=1
    )
    assert f"output '{name}'" in refusal(path) and "num_hypotheses" in refusal(path)


@pytest.mark.parametrize("name", OF_TOKENS)
def test_output_for_another_number_of_tokens(tmp_path, tokenizer_model, name):
    only_first = np.array([0], "int64")
    path = write_damaged(
        tmp_path / "model.onnx", tokenizer_model, name, "Gather", only_first, axis=2
    )
    assert f"output '{name}'" in refusal(path) and "axis 2" in refusal(path)


def test_top_tokens_of_another_number(tmp_path, tokenizer_model):
    name, only_first = "top_token_log_probs", np.array([0], "int64")
    path = write_damaged(
        tmp_path / "model.onnx", tokenizer_model, name, "Gather", only_first, axis=3
    )
    assert f"output '{name}'" in refusal(path) and "shape of 'top_token_ids'" in refusal(path)


@pytest.mark.parametrize("name", ["token_ids", "lengths", "top_token_ids"])
@pytest.mark.parametrize("difference", [-1000, 1000])
def test_output_out_of_range(tmp_path, tokenizer_model, name, difference):
    constant = np.array(difference, "int32")
    path = write_damaged(tmp_path / "model.onnx", tokenizer_model, name, "Add", constant)
    message = refusal(path)
    assert f"output '{name}'" in message and "values in [0, " in message
