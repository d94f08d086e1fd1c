"""Settings that are not mapped: the irrelevant ones change nothing, and the others are refused."""

import json

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.convert._generation_settings import GENERATION

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from tests.convert import (  # noqa: E402
    test_encoders,
    test_fairseq_models,
    test_language_models,
    test_marian,
    test_t5_models,
)
from tests.convert.against_transformers import randomize, save  # noqa: E402

MODEL_TYPES = (*ARCHITECTURES, *ENCODERS)
OTHER_VALUES = {
    "_name_or_path": "elsewhere",
    "attn_implementation": "eager",
    "dtype": "float16",
    "torch_dtype": "float16",
    "chunk_size_feed_forward": 1,
    "id2label": {"0": "first", "1": "second"},
    "label2id": {"first": 0, "second": 1},
    "task_specific_params": {"translation": {"num_beams": 7}},
    "tokenizer_class": "OtherTokenizer",
    "transformers_version": "4.0.0",
    "problem_type": "regression",
    "max_position_embeddings": 128,
    "num_labels": 2,
    "sliding_window": 2,
    "langs": ["fr", "en"],
    "summary_type": "mean",
    "summary_activation": "tanh",
}
"""Values of irrelevant settings that are neither numbers nor flags, or have limits."""

FORMS = {"return_dict", "use_return_dict"}
"""Irrelevant settings. Some classes of transformers fail with other values than the default."""


def settings_of(model_type):
    if model_type in ENCODERS:
        return ENCODERS[model_type].settings
    return ARCHITECTURES[model_type].settings


def make(model_type):
    if model_type in ENCODERS:
        return test_encoders.make(model_type, "ForMaskedLM")
    if model_type in test_fairseq_models.CHANGED:
        model = test_fairseq_models.make(model_type)
    elif model_type in test_language_models.MODELS:
        model = test_language_models.make(model_type)
    else:
        others = {"marian": test_marian.marian, "t5": test_t5_models.t5, "mt5": test_t5_models.mt5}
        model = others[model_type]()
    return randomize(model)


def change(folder, values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def other_value(name, before):
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if isinstance(before, bool):
        return not before
    return 0.5 if isinstance(before, float) else 7


def their_logits(model, ids):
    inputs = {"input_ids": torch.tensor(ids).long()}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"]
        if model.config.model_type == "fsmt":
            inputs["use_cache"] = False  # with a cache, FSMT has no causal mask
    with torch.no_grad():
        outputs = model(**inputs)
    return (outputs if isinstance(outputs, tuple) else outputs.to_tuple())[0].numpy()


def our_logits(converted, ids):
    model = converted.model
    if converted.kind != "generation":
        names = [each.name for each in model.inputs]
        inputs = {"token_ids": ids, "token_type_ids": np.zeros_like(ids)}
        return np.array(model({name: inputs[name] for name in names} if names[1:] else ids))
    if model.encoder is None:
        return np.array(model.decoder(ids))
    return np.array(model.decoder(ids, **model.encoder(ids)))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_irrelevant_settings_change_no_logits(tmp_path, model_type):
    original = save(make(model_type), tmp_path)
    ids = np.random.default_rng(0).integers(6, 50, (3, 8)).astype("int32")
    expected = their_logits(original, ids)
    config = original.config.to_dict()
    table = settings_of(model_type)
    irrelevant = [name for name, each in table.items() if each.treatment == "irrelevant"]
    changed = {name: other_value(name, config.get(name)) for name in irrelevant}
    assert all(config.get(name, "missing") != value for name, value in changed.items())
    change(tmp_path, {name: each for name, each in changed.items() if name not in FORMS})
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    again = type(original).from_pretrained(tmp_path, **options).eval()
    change(tmp_path, changed)
    converted = from_transformers(tmp_path)
    tolerance = 1e-4 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(their_logits(again, ids), expected, atol=tolerance)
    np.testing.assert_allclose(our_logits(converted, ids), expected, atol=tolerance)
    reports = [each for each in converted.settings if each.file == "config.json"]
    treatments = {each.name: each.treatment for each in reports}
    assert {treatments[name] for name in irrelevant} == {"irrelevant"}
    assert converted.count("ignored") == 0


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_refused_settings_are_errors_that_name_them(tmp_path, model_type):
    save(make(model_type), tmp_path)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)  # read them from config.json
    table = settings_of(model_type)
    table = table if model_type in ENCODERS else {**GENERATION, **table}
    before = (tmp_path / "config.json").read_text()
    for name, each in table.items():
        if each.treatment != "refused":
            continue
        change(tmp_path, {name: ["unexpected"], "do_sample": True})
        with pytest.raises(ConversionError, match=rf"{name}=\['unexpected'\]"):
            from_transformers(tmp_path)
        (tmp_path / "config.json").write_text(before)
