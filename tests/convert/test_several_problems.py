"""One error reports all unsupported settings of a checkpoint."""

import json
import re

import pytest

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._conversion_error import Problems
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._search_settings import search_settings
from keras_attn.convert._settings import Settings

ACTIVATIONS = {"t5": "feed_forward_proj", "mt5": "feed_forward_proj", "distilbert": "activation"}
ACTIVATIONS |= dict.fromkeys(("llama", "mistral", "qwen2", "gemma", "bert"), "hidden_act")
ACTIVATIONS |= dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "hidden_act")
"""Keys of the activation that are not called `activation_function`."""

ROPE = {"rope_type": "dynamic", "factor": 2.0}
GENERATION_CONFIG = {
    "eos_token_id": [1, "2"],
    "decoder_start_token_id": 0,
    "num_beam_groups": 2,
    "num_beams": 4,
    "early_stopping": "often",
    "bad_words_ids": [[3, 0, 4]],
    "pad_token_id": [5, 6],
}


def refused(folder, config, generation_config=None):
    (folder / "config.json").write_text(json.dumps(config))
    if generation_config is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation_config))
    with pytest.raises(ConversionError) as info:
        from_transformers(folder)
    assert "\n" not in str(info.value)
    return str(info.value)


def check_names(message, expected):
    for each in expected:
        assert re.search(each, message), (each, message)
    assert f"Received: {len(expected)} problems. (1) Expected" in message
    assert f"({len(expected)}) Expected" in message


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_all_settings_of_both_files_are_named(tmp_path, model_type):
    activation = ACTIVATIONS.get(model_type, "activation_function")
    config = {"model_type": model_type, activation: "other", "quantization_config": {"bits": 4}}
    config |= {"own_setting": 1}
    expected = [
        r"config.json .*quantization_config=\{'bits': 4\}.*own_setting=1 \(an unknown setting\)",
        f"{activation} in config.json .* activations .*{activation}='other'",
        "generation_config.json .*num_beam_groups=2",
        r"eos_token_id=\[1, '2'\]",
        r"pad_token_id=\[5, 6\]",
        r"bad_words_ids=\[3, 0, 4\]",
        "early_stopping='often'",
    ]
    if "rope_parameters" in ARCHITECTURES[model_type].settings:
        config["rope_parameters"] = ROPE
        expected.append("rope_parameters=.*'dynamic'.*depend on the length")
    check_names(refused(tmp_path, config, GENERATION_CONFIG), expected)


@pytest.mark.parametrize("model_type", ENCODERS)
def test_all_settings_of_encoders_are_named(tmp_path, model_type):
    class_name = f"{ENCODERS[model_type].class_name}ForSequenceClassification"
    config = {"model_type": model_type, "architectures": [class_name], "id2label": {"5": "a"}}
    activation = ACTIVATIONS[model_type]
    config |= {activation: "other", "own_setting": 1}
    expected = [
        r"own_setting=1 \(an unknown setting\)",
        f"{activation} in config.json .* activations .*{activation}='other'",
        r"id2label=\{'5': 'a'\}",
    ]
    check_names(refused(tmp_path, config), expected)


def test_search_settings_in_one_file_are_named_once(tmp_path):
    config = {"model_type": "bart", **GENERATION_CONFIG}
    expected = [
        "num_beam_groups=2",
        r"eos_token_id=\[1, '2'\]",
        r"pad_token_id=\[5, 6\]",
        r"bad_words_ids=\[3, 0, 4\]",
        "early_stopping='often'",
    ]
    message = refused(tmp_path, config)
    check_names(message, expected)
    assert message.count("num_beam_groups") == 1


def test_independent_search_settings_are_named_together():
    values = {"decoder_start_token_id": 9, "eos_token_id": 0, "num_beams": 2, "do_sample": True}
    values |= {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "forced_eos_token_id": 5}
    with pytest.raises(ConversionError) as info:
        search_settings(Settings("generation_config.json", values, GENERATION, True), None)
    names = ["no_repeat_ngram_size", "repetition_penalty", "forced_eos_token_id", "num_beams"]
    check_names(str(info.value), [f"Expected {name} in" for name in names])
    values |= {"do_sample": False, "renormalize_logits": True, "min_length": 5}
    with pytest.raises(ConversionError, match="min_length=0 with .*no_repeat_ngram_size=0 with"):
        search_settings(Settings("generation_config.json", values, GENERATION, True), None)


def test_problems_are_kept_until_the_end():
    problems = Problems()
    problems.raise_all()
    for messages in [("a",), ("b", "c"), ("a",)]:
        with problems.collect():
            raise ConversionError(*messages)
    with pytest.raises(ConversionError) as info:
        problems.raise_all()
    assert info.value.messages == ("a", "b", "c")
    assert str(ConversionError("a")) == "a"
    with pytest.raises(TypeError), problems.collect():
        raise TypeError
