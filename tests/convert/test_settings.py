import pytest

from keras_attn.convert import ConversionError
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._checkpoint_settings import checkpoint_settings
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._search_settings import search_settings
from keras_attn.convert._settings import Settings, irrelevant, mapped, refused, refused_unless

TABLE = {
    "size": mapped("the size", 3),
    "dropout": irrelevant("only used in training"),
    "code": refused("own code", None, False),
    "layers": refused_unless("must equal size", lambda value, others: value == others["size"]),
}


def test_settings_read_mapped_keys_and_their_defaults():
    settings = Settings("config.json", {"size": 5}, TABLE)
    assert settings["size"] == 5 and settings.reads == {"size"} and list(settings) == ["size"]
    assert Settings("config.json", {}, TABLE)["size"] == 3
    assert Settings("config.json", {"size": None}, TABLE)["size"] is None
    assert Settings("config.json", {"size": None}, TABLE, null_is_default=True)["size"] == 3
    with pytest.raises(KeyError, match="dropout is irrelevant"):
        settings["dropout"]


def test_settings_report_how_each_key_was_treated():
    values = {"size": 5, "dropout": 0.1, "code": None, "layers": 5, "other": 1}
    reports = Settings("config.json", values, TABLE).check(["other"])
    treatments = ["mapped", "irrelevant", "harmless", "harmless", "ignored"]
    assert [each.treatment for each in reports] == treatments
    assert str(reports[0]) == "config.json: size = 5: mapped, the size"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"other": 1, "code": True}, r"other=1 \(an unknown setting\); code=True \(own code\)"),
        ({"code": 0}, "code=0"),  # a number, not False
        ({"layers": 4}, r"layers=4 \(must equal size\)"),
    ],
)
def test_settings_refuse_what_changes_results(values, message):
    settings = Settings("config.json", values, TABLE)
    with pytest.raises(ConversionError, match=f"Received: {message}.*--ignore-setting NAME"):
        settings.check()
    assert {each.treatment for each in settings.check(values)} == {"ignored"}


IDS = {"decoder_start_token_id": 9, "eos_token_id": 0, "pad_token_id": 9}


def search(max_positions=None, reads_prompts=False, **values):
    values = {name: value for name, value in {**IDS, **values}.items() if value is not None}
    settings = Settings("generation_config.json", values, GENERATION, True)
    return search_settings(settings, max_positions, reads_prompts)


def test_search_settings_are_those_of_generate_by_default():
    found = search()
    assert found.class_name == "GreedyDecoder"
    assert found.arguments == {
        "start_token_id": 9,
        "end_token_id": 0,
        "pad_token_id": 9,
        "suppressed_token_ids": [],
        "min_length": 0,
        "max_length": 20,
        "relative_max_length": None,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"max_length": 30}, {"max_length": 29}),  # without the start token
        ({"max_length": 30, "max_new_tokens": 7}, {"max_length": 7}),
        ({"max_positions": 8}, {"max_length": 7}),
        ({"min_length": 4}, {"min_length": 3}),
        ({"min_length": 4, "min_new_tokens": 6}, {"min_length": 6}),
        ({"eos_token_id": [0]}, {"end_token_id": 0}),
        (
            {"eos_token_id": [0, 4, 0], "bad_words_ids": [[9], [4]]},
            {"end_token_id": 0, "other_end_token_ids": [4], "suppressed_token_ids": [9]},
        ),
        ({"bad_words_ids": [[9], [0]], "suppress_tokens": [4]}, {"suppressed_token_ids": [4, 9]}),
        (
            {"bad_words_ids": [[5, 6], [9], [0, 3]]},
            {"suppressed_token_ids": [9], "suppressed_sequences": [[5, 6], [0, 3]]},
        ),
        ({"forced_eos_token_id": 0}, {"force_end_token": True}),
        ({"forced_bos_token_id": 5}, {"forced_prefix_ids": [5]}),
        ({"pad_token_id": None}, {"pad_token_id": 0}),
        ({"pad_token_id": -1, "reads_prompts": True}, {"pad_token_id": 0}),
        ({"decoder_start_token_id": None, "bos_token_id": 5}, {"start_token_id": 5}),
        ({"eos_token_id": [7]}, {"end_token_id": 7}),
        ({"num_beams": 3}, {"beam_width": 3, "stop": "heuristic", "num_hypotheses": 1}),
        ({"num_beams": 3, "early_stopping": True}, {"stop": "collected"}),
        ({"num_beams": 3, "early_stopping": "never"}, {"stop": "exact", "num_hypotheses": 3}),
        ({"num_beams": 3, "length_penalty": 0.6}, {"length_penalty": 0.6}),
        ({"no_repeat_ngram_size": 2, "bad_words_ids": [[9]]}, {"no_repeat_ngram_size": 2}),
        ({"repetition_penalty": 1.3, "bad_words_ids": [[9]]}, {"repetition_penalty": 1.3}),
        ({"max_length": 30, "reads_prompts": True}, {"relative_max_length": (-1, 30)}),
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50, "top_p": 1.0}),
        ({"do_sample": True, "top_k": 0, "temperature": 0.7}, {"temperature": 0.7, "top_k": None}),
    ],
)  # fmt: skip
def test_search_settings_become_arguments(values, expected):
    assert expected.items() <= search(**values).arguments.items()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"eos_token_id": None}, "eos_token_id.*an end token"),
        ({"eos_token_id": []}, r"one id.*eos_token_id=\[\]"),
        ({"decoder_start_token_id": [0, 4]}, r"one id.*decoder_start_token_id=\[0, 4\]"),
        ({"decoder_start_token_id": None}, "a start token"),
        ({"forced_eos_token_id": 5}, "eos_token_id=0"),
        ({"bad_words_ids": [[3, 9, 4]]}, r"at the start token 9.*\[3, 9, 4\]"),
        ({"bad_words_ids": [[3, 4]], "reads_prompts": True}, r"in the prompt.*\[3, 4\]"),
        (
            {"num_beams": 2, "renormalize_logits": True, "bad_words_ids": [[9], [3, 4]]},
            "single tokens with renormalize_logits",
        ),
        ({"bad_words_ids": [[]]}, "a list of lists of ids"),
        ({"no_repeat_ngram_size": 2}, "the start token 9"),
        ({"repetition_penalty": 1.3}, r"the start token 9. Add \[9\] to bad_words_ids"),
        ({"repetition_penalty": 1.3, "bad_words_ids": [[9]], "num_beams": 2}, "log probabilities"),
        ({"repetition_penalty": 1.3, "reads_prompts": True}, "the tokens of the prompt"),
        ({"num_beams": 2, "do_sample": True}, "num_beams=1"),
        ({"num_beams": 2, "early_stopping": "often"}, "one of"),
        ({"num_beams": 2, "early_stopping": []}, r"one of.*early_stopping=\[\]"),
        ({"num_beams": 2, "renormalize_logits": True, "min_length": 5}, "min_length=0"),
        ({"num_return_sequences": 2}, "greedy"),
        ({"min_length": 2, "reads_prompts": True}, "counts the prompt"),
        ({"forced_bos_token_id": 5, "reads_prompts": True}, "only if the prompt has one token"),
        ({"pad_token_id": -1}, "an id of at least 0.*pad_token_id=-1"),
        ({"suppress_tokens": ["a"]}, "a list of ids"),
        ({"bad_words_ids": [3]}, "a list of lists of ids"),
    ],
)
def test_search_settings_without_an_equal_search_are_refused(values, message):
    with pytest.raises(ConversionError, match=f"(?s){message}"):
        search(**values)


def test_search_settings_name_tokens_that_are_left_out_of_the_softmax():
    values = {"num_beams": 2, "renormalize_logits": True, "bad_words_ids": [[9]]}
    assert search(**values).impossible_token_ids == (9,)
    assert search(**{**values, "renormalize_logits": False}).impossible_token_ids == ()


END = "eos_token_id"


@pytest.mark.parametrize("generation_config", [None, {END: [0, 4]}, {END: 4}])
@pytest.mark.parametrize("model_type", ["bart", "marian", "t5"])
def test_replaced_end_token_is_also_that_of_sources_with_a_list(model_type, generation_config):
    """The advice of the error for a list of end tokens works."""
    config = {"model_type": model_type, END: [0, 4]}
    arguments = (config, generation_config, ARCHITECTURES[model_type])
    with pytest.raises(ConversionError, match="one id.*--setting eos_token_id=0"):
        checkpoint_settings(*arguments)[0].check()
    settings, generation = checkpoint_settings(*arguments, {END: 0})
    report = next(each for each in settings.check() if each.name == END)
    assert settings[END] == generation[END] == 0
    assert report.note.endswith("at your request instead of [0, 4]")


def test_replaced_end_token_does_not_change_one_id_of_sources():
    arguments = ({"model_type": "bart", END: 2}, {END: [2, 4]}, ARCHITECTURES["bart"])
    settings, generation = checkpoint_settings(*arguments, {END: 4})
    assert (settings[END], generation[END]) == (2, 4)
