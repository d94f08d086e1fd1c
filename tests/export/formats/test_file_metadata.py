import hashlib
import json
import math

import onnx
import pytest
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._file_format.file_checksum import verify_file_checksum

from keras_attn import BeamDecoder
from keras_attn.export import ParityReport
from keras_attn.export._formats.file_metadata import describe, describe_card
from keras_attn.export._formats.onnx_file import add_metadata, write_model
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.training import ModelCard
from tests.runtime.fake_model import build_model


def test_settings_are_what_the_runtime_reads(translator, tokenizers):
    card = ModelCard("en", "de", license="MIT", data="own texts")
    metadata = describe(SearchFunction(translator), *tokenizers, card) | describe_card(card)
    settings = Settings.from_metadata(metadata)
    assert (settings.format, settings.source.language, settings.target.language) == (3, "en", "de")
    assert settings.source.tokenizer == settings.target.tokenizer == "sentencepiece"
    assert settings.card == {"license": "MIT", "data": "own texts"}
    assert settings.search["class"] == "BeamDecoder" and settings.search_inputs == [
        *("max_length", "length_penalty"),
        *("min_length", "beam_width", "num_hypotheses", "patience"),
    ]
    without = Settings.from_metadata(describe(SearchFunction(translator)))
    assert without.source.tokenizer == "none" and without.source.language is None


def test_numbers_that_json_lacks_are_strings(translator):
    def refuse(name):
        raise ValueError(name)

    function = SearchFunction(translator)
    config = {**function.search.get_config(), "relative_max_length": (math.inf, 0)}
    function.search = BeamDecoder(function.search.decoder, name="other")
    function.search.get_config = lambda: config
    settings = describe(function)["keras_attn.settings"]
    settings = json.loads(settings, parse_constant=refuse)
    assert settings["search"]["relative_max_length"] == ["inf", 0]


def test_card_holds_the_parity_of_the_file():
    report = ParityReport(sentences=200, best_equal=0.995, largest_difference=1e-6)
    (card,) = describe_card(ModelCard("en", recipe="a command"), report).values()
    assert json.loads(card) == {
        "recipe": "a command",
        "parity": {
            "sentences": 200,
            "best_equal": 0.995,
            "all_equal": 1.0,
            "largest_difference": 1e-6,
        },
    }
    assert describe_card(ModelCard("en")) == describe_card() == {}


def test_model_card_values_are_strings():
    with pytest.raises(ValueError, match="license to be a string. Received: license=3"):
        ModelCard(license=3)


def test_metadata_added_later_are_under_the_checksum(tmp_path):
    path = tmp_path / "model.onnx"
    write_model(build_model({"keras_attn.format": "2"}, alignments=False), path)
    before = onnx.load(path).metadata_props[-1].value
    add_metadata(path, {"keras_attn.card": "{}"})
    verify_file_checksum(path)
    keys = [entry.key for entry in onnx.load(path).metadata_props]
    assert keys == ["keras_attn.format", "keras_attn.card", "keras_attn.file_checksum"]
    last = onnx.load(path).metadata_props[-1:]
    content = path.read_bytes()
    end = len(onnx.ModelProto(metadata_props=last).SerializeToString())
    assert last[0].value == hashlib.sha256(content[:-end]).hexdigest() != before
