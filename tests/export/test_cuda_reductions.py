"""Exported searches do not reduce empty axes, which ONNX Runtime 1.31 cannot do with CUDA."""

import json

import numpy as np
import onnxruntime
import pytest

from keras_attn import BeamDecoder, SamplingDecoder
from keras_attn.export import export_onnx
from tests.export.small_translator import make_translator, settings_of
from tests.export.test_language_model import PROMPT_IDS, generator

# Different lengths, so that the hypotheses end at different steps.
SOURCES = np.array([[5, 6, 7, 2], [8, 2, 0, 0], [9, 10, 2, 0]], "int32")


def test_translator_reduces_no_empty_axis(tmp_path):
    model = make_translator(relative_max_length=(2, 1))
    assert not reductions_of_empty_axes(model, SOURCES, tmp_path)


@pytest.mark.parametrize(
    ("search", "options"),
    [
        pytest.param(BeamDecoder, {"cache_block_size": 2, "beam_width": 3}, marks=pytest.mark.slow),
        (SamplingDecoder, {"top_k": 4}),
    ],
    ids=["beam", "sampling"],
)
def test_language_model_reduces_no_empty_axis(search, options, tmp_path):
    assert not reductions_of_empty_axes(generator(search, **options), PROMPT_IDS, tmp_path)


def reductions_of_empty_axes(model, source_ids, folder):
    """Returns the names of the nodes of an exported search that reduce an empty tensor."""
    path = folder / "model.onnx"
    export_onnx(model, path)
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {
        "source_ids": source_ids,
        "max_length": np.array(9, "int32"),
        "length_penalty": np.array(1.0, "float32"),
        "seeds": np.arange(len(source_ids), dtype="int32"),
        **settings_of(session),
    }
    session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})
    with open(session.end_profiling(), encoding="utf-8") as file:
        nodes = [event for event in json.load(file) if event["name"].endswith("_kernel_time")]
    reductions = [node for node in nodes if node["args"]["op_name"].startswith("Reduce")]
    assert reductions
    return [
        node["name"]
        for node in reductions
        if any(0 in shape for shape in node["args"]["input_type_shape"][0].values())
    ]
