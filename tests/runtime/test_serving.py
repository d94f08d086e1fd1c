"""Tests the requests in export/serving without servers."""

import json
from pathlib import Path

import numpy as np
from keras_attn_runtime._commands.triton import write_repository

from tests.export.small_translator import session

REQUEST = Path(__file__).parents[2] / "export" / "serving" / "triton_request.json"
TYPES = {"INT32": "int32", "FP32": "float32"}


def test_the_request_to_triton_fits_the_file(model_path, tmp_path):
    """The model copies its source."""
    request = json.loads(REQUEST.read_text(encoding="utf-8"))
    file = session(write_repository(model_path, tmp_path) / "1" / "model.onnx")
    ranks = {each.name: len(each.shape) for each in file.get_inputs()}
    feeds = {}
    settings = {"min_length", "beam_width", "num_hypotheses", "patience"}
    assert {each["name"] for each in request["inputs"]} - set(ranks) == settings
    for each in request["inputs"]:
        if each["name"] in settings:  # this small model has no search
            continue
        array = np.array(each["data"], TYPES[each["datatype"]]).reshape(each["shape"])
        feeds[each["name"]] = array if ranks[each["name"]] else array.reshape(())
    names = [each["name"] for each in request["outputs"]]
    outputs = dict(zip(names, file.run(names, feeds), strict=True))
    np.testing.assert_array_equal(outputs["token_ids"][:, 0], feeds["source_ids"])
