"""An exported file with run-time settings equals files and searches that were made with them."""

import json
import subprocess
import sys

import keras
import numpy as np
import onnx
import pytest
from keras_attn_runtime import StreamingTranslator, Translator
from keras_attn_runtime._calls.search_settings import INTEGERS, SETTINGS, SIZES

from keras_attn import BeamDecoder, SamplingDecoder, with_search
from keras_attn._search import search as base
from keras_attn.export import (
    export_litert,
    export_litert_steps,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._checks.verify import OTHER_VALUES
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn_checks.search_options import BeamOptions, SamplingOptions, runtime_settings
from tests.contracts import assert_close, numpy
from tests.export.formats.test_export_onnx_text import run as run_texts
from tests.export.small_translator import SOURCE, make_translator, session
from tests.search.test_call_settings import SEED
from tests.slow_cases import all_slow_but

SEARCHES = {
    "beam": (
        BeamDecoder,
        {
            "beam_width": 3,
            "num_hypotheses": 2,
            "coverage_penalty": 0.3,
            "no_repeat_ngram_size": 3,
        },
    ),
    "groups": (BeamDecoder, {"beam_width": 4, "num_groups": 2}),
    "sampling": (SamplingDecoder, {"top_k": 12, "no_repeat_ngram_size": 3}),
}
VALUES = {
    "beam_width": [1, 2, 3],
    "num_hypotheses": [1, 2, 3],
    "min_length": [0, 3, 9],
    "repetition_penalty": [0.9, 1.0, 1.5],
    "no_repeat_ngram_size": [0, 1, 2, 3],
    "patience": [0.4, 1.0, 2.0],
    "coverage_penalty": [0.0, 0.3, 5.0],
    "diversity_strength": [0.1, 0.5, 3.0],
    "temperature": [0.3, 1.0, 2.0],
    "top_p": [0.3, 0.9, 1.0],
    "min_p": [0.0, 0.05, 0.4],
}
"""Values of each setting. Other values of `top_k` select other samples, see `Search`."""
IDS = np.random.default_rng(SEED).integers(3, 45, (8, 9)).astype("int32")


def model_of(name):
    search_class, settings = SEARCHES[name]
    return with_search(make_translator(max_length=12), search_class, **settings)


@pytest.fixture(scope="module", params=SEARCHES)
def exported(request, tmp_path_factory):
    model = model_of(request.param)
    path = tmp_path_factory.mktemp(request.param) / "model.onnx"
    names = list(model.search.runtime_settings)
    report = export_onnx(model, path, runtime_settings=names)
    assert report.best_tied > 0.99
    return model, path


def outputs(model, path, chosen):
    opened = session(path)
    feeds = {"source_ids": IDS, "max_length": np.array(12, "int32")}
    feeds["length_penalty"] = np.array(1, "float32")
    inputs = [each.name for each in opened.get_inputs()]
    for name, dtype in model.search.runtime_settings.items():
        if name not in inputs:
            continue
        feeds[name] = np.array(chosen.get(name, getattr(model.search, name)), dtype)
    if model.search.is_stochastic:
        feeds["seeds"] = np.arange(len(IDS), dtype="int32")
    names = [each.name for each in opened.get_outputs()]
    return dict(zip(names, opened.run(None, feeds), strict=True))


def assert_equals_a_search(model, path, chosen):
    received = outputs(model, path, chosen)
    search = with_search(model, **_possible(model, chosen)).search
    seeds = {"seeds": np.arange(len(IDS), dtype="int32")} if search.is_stochastic else {}
    expected = numpy(search(**model.encoder(IDS), max_length=12, **seeds))
    count = expected["scores"].shape[1]  # a smaller beam width has fewer hypotheses
    assert received["token_ids"][:, :count].tolist() == expected["token_ids"].tolist(), chosen
    assert_close(received["scores"][:, :count], expected["scores"], 1e-4)
    assert np.all(received["scores"][:, count:] == -1e9)


def _possible(model, chosen):
    """Returns settings that a search can have: no more hypotheses than beams."""
    if "num_hypotheses" not in chosen or model.search.is_stochastic:
        return chosen
    width = chosen.get("beam_width", model.search.beam_width)
    return {**chosen, "num_hypotheses": min(chosen["num_hypotheses"], width)}


@pytest.mark.parametrize("number", all_slow_but(0, cases=range(100)))
def test_a_file_equals_searches_of_random_settings(exported, number):
    model, path = exported
    generator = np.random.default_rng(number)
    chosen = {
        name: generator.choice(VALUES[name]).item()
        for name in model.search.runtime_settings
        if name in VALUES
    }
    assert_equals_a_search(model, path, chosen)


def test_each_setting_changes_the_results(exported):
    model, path = exported
    usual = outputs(model, path, {})
    for name in model.search.runtime_settings:
        values = [8] * (name == "min_length") or VALUES.get(name, [1])
        found = [outputs(model, path, {name: value}) for value in values]
        assert any(
            each["token_ids"].tolist() != usual["token_ids"].tolist()
            or each["scores"].tolist() != usual["scores"].tolist()
            for each in found
        ), name


def test_metadata(exported):
    model, path = exported
    entries = {each.key: each.value for each in onnx.load(path).metadata_props}
    settings = json.loads(entries["keras_attn.settings"])["search"]
    names = list(model.search.runtime_settings)
    assert entries["keras_attn.format"] == "3"
    assert settings["inputs"][: 2 + len(names)] == ["max_length", "length_penalty", *names]
    assert {name: settings[name] for name in names} == {
        name: getattr(model.search, name) for name in names
    }


def test_without_settings_the_file_keeps_its_format(tmp_path):
    export_onnx(model_of("beam"), tmp_path / "model.onnx", runtime_settings=[])
    model = onnx.load(tmp_path / "model.onnx")
    entries = {each.key: each.value for each in model.metadata_props}
    assert entries["keras_attn.format"] == "2"
    names = [each.name for each in model.graph.input]
    assert names == ["source_ids", "max_length", "length_penalty"]


@pytest.fixture(scope="module")
def files(tmp_path_factory, tokenizers):
    """Files of all formats, with a sampler of run-time settings."""
    folder = tmp_path_factory.mktemp("formats")
    search_class, settings = SEARCHES["sampling"]
    sizes = [each.vocabulary_size for each in tokenizers]
    translator = make_translator(vocabulary_sizes=sizes, max_length=12)
    model = with_search(translator, search_class, **settings)
    names = {"runtime_settings": ["temperature", "top_k", "min_length", "num_hypotheses"]}
    export_onnx(model, folder / "model.onnx", *tokenizers, **names)
    export_onnx_steps(model, folder / "steps", *tokenizers, **names)
    export_litert(model, folder / "model.tflite", *tokenizers, **names)
    export_saved_model(model, folder / "saved", *tokenizers, **names)
    export_onnx_text(model, folder / "text.onnx", *tokenizers, **names)
    return folder


CHOSEN = {"temperature": 0.4, "top_k": 3, "min_length": 5}


@pytest.mark.parametrize("chosen", [{}, CHOSEN], ids=str)
def test_all_formats_agree(files, chosen):
    import tensorflow as tf

    def samples(translator, path):
        options = {"seed": 5, "num_hypotheses": 3, **chosen}
        found = translator(files / path).translate(SOURCE, **options)
        return [[each.token_ids for each in result.hypotheses] for result in found]

    expected = samples(Translator, "model.onnx")
    assert len(expected[0]) == 3 and expected[0][0] != expected[0][1]
    assert samples(StreamingTranslator, "steps") == expected
    assert samples(Translator, "model.tflite") == expected
    ids = IDS % 17 + 3
    seeds = np.arange(len(ids), dtype="int32")
    opened = session(files / "model.onnx")
    settings = json.loads(opened.get_modelmeta().custom_metadata_map["keras_attn.settings"])
    feeds = {"source_ids": ids, "seeds": seeds}
    for each in opened.get_inputs():
        if each.name not in feeds:
            dtype = "float32" if "float" in each.type else "int32"
            value = chosen.get(each.name, settings["search"][each.name])
            feeds[each.name] = np.array(value, dtype)
    expected = opened.run(["token_ids"], feeds)[0]
    loaded = tf.saved_model.load(files / "saved")
    given = {name: tf.constant(value) for name, value in chosen.items()}  # the rest has defaults
    found = loaded.translate_ids(tf.constant(ids), seeds=tf.constant(seeds), **given)
    assert found["token_ids"].numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("stop", ["collected", pytest.param("heuristic", marks=pytest.mark.slow)])
def test_numbers_of_beams_and_hypotheses_in_all_formats(tmp_path, tokenizers, stop):
    import tensorflow as tf

    sizes = [each.vocabulary_size for each in tokenizers]
    translator = make_translator(vocabulary_sizes=sizes, max_length=12)
    model = with_search(translator, BeamDecoder, beam_width=4, stop=stop)
    export_onnx(model, tmp_path / "model.onnx", *tokenizers)
    export_onnx_steps(model, tmp_path / "steps", *tokenizers)
    names = {"runtime_settings": ["num_hypotheses", "beam_width"]}
    export_litert(model, tmp_path / "model.tflite", *tokenizers, **names)
    export_saved_model(model, tmp_path / "saved", *tokenizers)
    export_onnx_text(model, tmp_path / "text.onnx", *tokenizers)
    loaded = tf.saved_model.load(tmp_path / "saved")
    ids = tf.constant(IDS % 17 + 3)
    for width, count in ((1, 3), (2, 1), (4, 1), (4, 3), (4, 4)):
        chosen = {"beam_width": width, "num_hypotheses": count}
        search = with_search(model, beam_width=width, num_hypotheses=min(width, count))
        expected = search.generate(SOURCE, *tokenizers, return_details=True)
        expected = [[each.token_ids for each in result.hypotheses] for result in expected]
        for path in ("model.onnx", "steps", "model.tflite"):
            opened = (StreamingTranslator if "steps" in path else Translator)(tmp_path / path)
            found = opened.translate(SOURCE, **chosen)
            found = [[each.token_ids for each in result.hypotheses] for result in found]
            assert found == expected, (path, chosen)
        given = {name: tf.constant(value) for name, value in chosen.items()}
        found = numpy(loaded.translate_ids(ids, **given))["token_ids"]
        results = numpy(search.search(**model.encoder(ids)))["token_ids"]
        assert found.shape[1] == count
        assert found[:, : min(width, count)].tolist() == results.tolist()
        (texts,) = run_texts(tmp_path / "text.onnx", {"text": SOURCE, **chosen})
        best = [search.generate([each], *tokenizers)[0] for each in SOURCE]
        assert [each[0] for each in texts] == best and len(texts[0]) == count


def test_more_hypotheses_than_beams(tmp_path):
    model = model_of("beam")
    export_onnx(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="num_hypotheses of at most 3, the beam width of the file"):
        Translator(tmp_path / "model.onnx").translate_ids([[4, 5, 2]], num_hypotheses=4)
    with pytest.raises(ValueError, match="Expected num_hypotheses of at most 3, the beam_width"):
        model.search(**model.encoder(IDS), settings={"num_hypotheses": 4})
    # Programs without the runtime get as many hypotheses as the file has beams.
    assert outputs(model, tmp_path / "model.onnx", {"num_hypotheses": 9})["scores"].shape[1] == 3


def test_usual_settings():
    assert usual_names("beam") == ["min_length", "beam_width", "num_hypotheses", "patience"]
    assert usual_names("groups") == ["min_length", "num_hypotheses", "patience"]
    assert usual_names("sampling") == [
        *("min_length", "num_hypotheses", "temperature", "top_k", "top_p", "min_p")
    ]
    assert usual_names("beam", fixed_counts=True) == ["min_length", "patience"]


def usual_names(name, **options):
    return list(SearchFunction(model_of(name), **options).runtime_settings)


def test_streaming_takes_settings(files):
    translator = StreamingTranslator(files / "steps")
    *_, last = translator.stream(SOURCE[1], seed=5, **CHOSEN)
    (whole,) = translator.translate(SOURCE[1:2], seed=5, **CHOSEN)
    assert last == whole.text
    with pytest.raises(ValueError, match="Expected settings that the file has as inputs"):
        translator.stream(SOURCE[1], top_p=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_p": 0.5}, "temperature, top_k. Received: top_p=0.5.*--runtime-settings top_p"),
        ({"beam_width": 2}, "`--search-class BeamDecoder`, because a file has one search"),
        ({"top_k": 13}, "Expected top_k of at most 12"),
        ({"temperature": 0}, "Expected temperature to be a number in"),
        ({"min_length": 1.5}, "Expected min_length to be an integer in"),
    ],
    ids=str,
)
def test_the_runtime_refuses(files, options, message):
    with pytest.raises(ValueError, match=message):
        Translator(files / "model.onnx").translate(SOURCE, **options)


def test_the_command_takes_settings(files):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in CHOSEN.items()]
    path = files / "model.onnx"
    command = [sys.executable, "-m", "keras_attn_runtime", "translate", path, "--seed=5", *options]
    found = subprocess.run(
        command, input="\n".join(SOURCE), capture_output=True, check=True, encoding="utf-8"
    )
    assert found.stdout.splitlines() == Translator(path)(SOURCE, seed=5, **CHOSEN)
    wrong = subprocess.run([*command[:5], "--top-k=x"], capture_output=True, encoding="utf-8")
    assert wrong.returncode == 2 and "top_k to be an integer in" in wrong.stderr
    assert "Received: top_k='x'" in wrong.stderr


@pytest.mark.parametrize(
    ("search", "names", "message"),
    [
        ("beam", ["temperature"], r"runtime_settings out of \['min_length'.*BeamDecoder"),
        ("groups", ["coverage_penalty"], "coverage_penalty"),
        ("beam", "min_length", "a list of names"),
        ("beam", ["min_length", 3], "a list of names"),
    ],
)
def test_an_export_refuses(tmp_path, search, names, message):
    with pytest.raises(ValueError, match=message):
        export_onnx(model_of(search), tmp_path / "model.onnx", runtime_settings=names)
    assert not list(tmp_path.iterdir())


def test_steps_of_litert_have_one_beam_width(tmp_path):
    names = ["beam_width", "num_hypotheses"]
    message = "runtime_settings without beam_width and num_hypotheses.*onnx-steps"
    with pytest.raises(ValueError, match=message):
        export_litert_steps(model_of("beam"), tmp_path / "x", runtime_settings=names)


def test_the_lists_of_settings_agree():
    names = {**runtime_settings(BeamOptions), **runtime_settings(SamplingOptions)}
    assert set(names) == {*SETTINGS, "num_hypotheses"}
    assert {name for name, dtype in names.items() if dtype == "int32"} == set(INTEGERS)
    assert set(OTHER_VALUES) == {"length_penalty", *names}
    assert set(SIZES) == set(base.SIZES)


def test_one_file_of_a_transformer(tmp_path):
    from keras_attn import GenerationModel, transformer_seq2seq

    keras.utils.set_random_seed(3)
    encoder, decoder = transformer_seq2seq(45, 46, num_layers=1, num_heads=2, embedding_dim=16)
    search = BeamDecoder(decoder, beam_width=3, num_hypotheses=3, max_length=12)
    model = GenerationModel(encoder, search)
    names = list(search.runtime_settings)
    export_onnx(model, tmp_path / "model.onnx", runtime_settings=names)
    others = {"min_length": 4, "patience": 0.4, "repetition_penalty": 1.4}
    for chosen in ({}, {"beam_width": 1}, {"beam_width": 2, **others}):
        assert_equals_a_search(model, tmp_path / "model.onnx", chosen)


def test_a_sampler_without_a_limit_takes_top_k(tmp_path, tokenizers):
    sizes = [each.vocabulary_size for each in tokenizers]
    model = make_translator(vocabulary_sizes=sizes, max_length=1)
    model = with_search(model, SamplingDecoder, relative_max_length=None)
    export_onnx(model, tmp_path / "model.onnx", *tokenizers)
    translator = Translator(tmp_path / "model.onnx")

    def first_tokens(**options):
        result, *_ = translator.translate(SOURCE, seed=1, num_hypotheses=2000, **options)
        return np.bincount([each.token_ids[0] for each in result.hypotheses if each.token_ids])

    every = first_tokens()
    for count in (1, 3):
        best = np.argsort(-every)[:count]
        found = first_tokens(top_k=count)
        assert set(np.flatnonzero(found)) == set(best)
        expected = every[best] / every[best].sum()
        assert_close(found[best] / found.sum(), expected, 0.05)
    assert first_tokens(top_k=0).tolist() == every.tolist()
