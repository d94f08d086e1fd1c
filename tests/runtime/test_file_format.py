"""Files of both formats, and different settings of source and target."""

import json
from pathlib import Path

import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator
from keras_attn_runtime._file_format import Input, Settings, Side
from keras_attn_runtime._file_format.inputs import ImageFormat

from tests.runtime.fake_model import build_model, metadata

FILES = Path(__file__).parent / "format_files"


@pytest.mark.parametrize("number", [1, 2])
def test_format_is_read(number):
    path = FILES / f"format-{number}.onnx"
    answers = json.loads(path.with_suffix(".json").read_text())
    assert path.stat().st_size <= 20_000 and len(answers) == 5
    translator = Translator(path, num_threads=1)
    texts = translator.translate([answer["text"] for answer in answers])
    assert [each.text for each in texts] == [answer["translation"] for answer in answers]
    ids = translator.translate_ids([answer["source_ids"] for answer in answers if answer["text"]])
    expected = [answer for answer in answers if answer["text"]]
    assert [each.token_ids for each in ids] == [answer["token_ids"] for answer in expected]
    for each, answer in zip(ids, expected, strict=True):
        assert each.log_prob == pytest.approx(answer["log_prob"], abs=1e-4)
    settings = translator.settings
    assert settings.format == number
    assert settings.source == Side(9, 0, None, 2, add_end=True, tokenizer="sentencepiece")
    assert settings.target == Side(9, 0, 1, 2, add_end=True, tokenizer="sentencepiece")
    assert settings.inputs == {"source_ids": Input("ids", "int32", ("batch", "source_length"))}
    assert settings.search_inputs == ["max_length", "length_penalty"]
    assert (settings.beam_width, settings.num_hypotheses, settings.max_length) == (1, 1, 6)


def test_settings_ignore_unknown_keys(tokenizer_model):
    properties = metadata(tokenizer_model, news=1, source__news=2, search__news=3)
    settings = Settings.from_metadata({**properties, "keras_attn.news": "4"})
    assert settings.search["news"] == 3 and settings.source.vocabulary_size == 64


def test_settings_of_format_1_take_the_ids_of_the_target_for_the_source():
    old = {
        "start_token_id": 5, "end_token_id": 6, "pad_token_id": 7, "beam_width": 4,
        "num_hypotheses": 2, "max_length": 100, "length_penalty": 0.5,
        "source_vocabulary_size": 20, "target_vocabulary_size": 30, "versions": {},
        "source_start": True, "source_end": False, "max_source_length": 19,
    }  # fmt: skip
    properties = {"keras_attn.format": "1", "keras_attn.settings": json.dumps(old)}
    settings = Settings.from_metadata(properties, ["source_ids", "seeds"])
    assert settings.source == Side(20, 7, 5, 6, add_start=True, max_length=19)
    assert settings.target == Side(30, 7, 5, 6, add_end=True)
    assert settings.search_inputs == ["max_length", "length_penalty", "seeds"]
    assert (settings.max_length, settings.length_penalty) == (100, 0.5)


def test_source_has_its_own_special_ids(tokenizer_model, tmp_path):
    """The file copies its input, so its output shows the ids that the runtime passes."""
    special = {"start_token_id": 9, "end_token_id": 8, "pad_token_id": 5, "add_start": True}
    special = {f"source__{name}": value for name, value in special.items()}
    properties = metadata(tokenizer_model, **special)
    onnx.save(build_model(properties), tmp_path / "model.onnx")
    translator = Translator(tmp_path / "model.onnx", num_threads=1)
    # The runtime adds start and end once, and pads rows with the padding id of the source.
    sentences = [[20, 21, 22], [9, 20, 8], [20, 5, 5], [9, 8]]
    found = [each.hypotheses[0].token_ids for each in translator.translate_ids(sentences)]
    assert found[:3] == [[9, 20, 21, 22, 8], [9, 20, 8, 5, 5], [9, 20, 8, 5, 5]]
    assert found[3] == []


def test_card_is_no_part_of_the_checksum(tokenizer_model, tmp_path):
    properties = metadata(tokenizer_model) | {"keras_attn.card": '{"license": "MIT"}'}
    onnx.save(build_model(properties), tmp_path / "model.onnx")
    assert Translator(tmp_path / "model.onnx").settings.card == {"license": "MIT"}


IMAGE = {"kind": "image", "dtype": "float32", "shape": ["batch", 8, 8, 3]}


def read_image_settings(tokenizer_model, shape=(8, 8, 3), **image):
    entry = {**IMAGE, "shape": ["batch", *shape], "image": image}
    properties = metadata(tokenizer_model, inputs={"image": entry}, source=None)
    return Settings.from_metadata(properties).inputs["image"].image


def test_image_settings_have_defaults(tokenizer_model):
    expected = ImageFormat("rgb", (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), None)
    assert read_image_settings(tokenizer_model, news=3) == expected
    found = read_image_settings(tokenizer_model, offset=[1, 2, 3], scale=0.5, resize="nearest")
    assert found == ImageFormat("rgb", (0.5, 0.5, 0.5), (1.0, 2.0, 3.0), "nearest")
    properties = metadata(tokenizer_model, inputs={"image": IMAGE}, source=None)
    assert Settings.from_metadata(properties).inputs["image"].image is None


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"channels": "hsv"}, "inputs.image.image.channels='hsv'"),
        ({"resize": "magic"}, "or null, .* inputs.image.image.resize='magic'"),
        ({"scale": [1, 2]}, "a list of 3 of them .*scale=.1, 2."),
        ({"offset": [1, 2, "3"]}, "inputs.image.image.offset"),
        ({"offset": True}, "inputs.image.image.offset=True"),
        ({"scale": float("nan")}, "inputs.image.image.scale=nan"),
        ({"shape": (8, 8, 4)}, "with 4 axes, the last of size 3 .*inputs.image.shape"),
        ({"shape": (8, 3)}, "with 4 axes"),
    ],
)
def test_image_settings_are_checked(tokenizer_model, image, message):
    with pytest.raises(ModelFileError, match=message):
        read_image_settings(tokenizer_model, **image)
