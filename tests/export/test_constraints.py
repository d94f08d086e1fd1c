"""Files with constraints equal Keras, and their texts contain the phrases."""

import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from keras_attn_runtime import InputError, ModelFileError, StreamingTranslator, Translator
from keras_attn_runtime._translate.constraints import ConstraintReader

from keras_attn import BeamDecoder, SamplingDecoder, with_search
from keras_attn._models import constraints as keras_constraints
from keras_attn.export import (
    export_litert,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.text import word_starts
from tests.contracts import assert_close, numpy
from tests.export.small_translator import SOURCE

PHRASES = [["hund"], ["katze", ["schläft", "frisst"]], None, ["ein baum", "zwei vögel"]]


def contains(text, phrases):
    """Returns whether the words of a text contain each phrase, or an alternative of it."""
    alternatives = [[each] if isinstance(each, str) else each for each in phrases or []]
    return [any(re.search(rf"\b{each}\b", text) for each in phrase) for phrase in alternatives]


@pytest.fixture(scope="module")
def model(translator):
    return with_search(translator, BeamDecoder, beam_width=4, num_hypotheses=2, max_length=40)


@pytest.fixture(scope="module")
def onnx_file(model, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    report = export_onnx(
        model, path, *tokenizers, accept_constraints=True, accept_target_prefix=True
    )
    assert report.all_equal == 1
    return path


@pytest.fixture(scope="module")
def steps(model, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("steps") / "steps"
    report = export_onnx_steps(model, path, *tokenizers, accept_constraints=True)
    assert report.all_equal == 1
    return path


@pytest.fixture(scope="module")
def litert_file(model, tokenizers, tmp_path_factory):
    pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")
    path = tmp_path_factory.mktemp("litert") / "model.tflite"
    report = export_litert(model, path, *tokenizers, accept_constraints=True, batch_size=2)
    assert report.all_equal == 1
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["any order", "in order"])
def expected(request, model, tokenizers):
    """Returns `constraints_in_order`, and the results of Keras for each of `SOURCE`."""
    source, target = tokenizers
    starts, results = word_starts(target), []
    for text, row in zip(SOURCE, PHRASES, strict=True):
        alternatives = [[each] if isinstance(each, str) else each for each in row or []]
        ids = np.full((1, 2, 2, 12), -1, "int32")
        for place, phrase in zip(ids[0], alternatives, strict=False):
            for own, tokens in zip(place, target.encode(phrase), strict=False):
                own[: len(tokens)] = tokens
        encoded = model.source_encoder(np.array([[*source.encode([text])[0], 2]]))
        given = {"constraint_ids": ids, "constraints_in_order": request.param}
        results.append(numpy(model.search(**encoded, **given, word_starts=starts)))
    return request.param, results


@pytest.mark.parametrize("file", ["onnx_file", "litert_file"])
def test_file_equals_keras(request, file, expected):
    in_order, expected = expected
    phrases = [each or [] for each in PHRASES]
    found = Translator(request.getfixturevalue(file)).translate(
        SOURCE, constraints=phrases, constraints_in_order=in_order, num_hypotheses=2, batch_size=2
    )
    for row, result, same in zip(phrases, found, expected, strict=True):
        for rank, hypothesis in enumerate(result.hypotheses):
            length = same["lengths"][0, rank]
            assert hypothesis.token_ids == same["token_ids"][0, rank, :length].tolist()
            assert_close(hypothesis.score, same["scores"][0, rank], 1e-4)
            met = same["constraints_met"][0, rank, : len(row)].tolist()
            assert hypothesis.constraints_met == (met or None)


def test_texts_contain_the_phrases_as_words(onnx_file):
    translator = Translator(onnx_file)
    without = [result.text for result in translator.translate(SOURCE)]
    results = translator.translate(SOURCE, constraints=PHRASES)
    assert [result.constraints_met for result in results] == [
        [True],
        [True, True],
        None,
        [True] * 2,
    ]
    for result, phrases, former in zip(results, PHRASES, without, strict=True):
        assert all(contains(result.text, phrases))
        assert not phrases or not all(contains(former, phrases))
    assert results[2].text == without[2]


def test_generate_of_keras_finds_the_same_texts(onnx_file, model, tokenizers):
    expected = Translator(onnx_file).translate(SOURCE, constraints=PHRASES, num_hypotheses=2)
    results = model.generate(SOURCE, *tokenizers, constraints=PHRASES, return_details=True)
    for result, other in zip(results, expected, strict=True):
        assert [each.text for each in result.hypotheses] == [each.text for each in other.hypotheses]
        assert result.constraints_met == other.constraints_met
    ids = tokenizers[1].encode(["hund"])[0]
    sources = [[*row, 2] for row in tokenizers[0].encode(SOURCE[:2])]
    found = model.generate(sources, constraints=[[[ids]], None], target_prefix=[[5], [6]])
    assert found[0][0] == 5 and found[1][0] == 6
    assert str(ids)[1:-1] in str(found[0])


@pytest.mark.parametrize(
    "constraints, message",
    [
        ([["hund"]], "for each of the 2 sources"),
        (["hund", None], "Pass a list with one phrase"),
        ([None, [3.5]], "list of phrases|text or a list of ids"),
        ([None, [[]]], "at least one alternative"),
        ([None, ["Ω"]], "vocabulary contains"),
        ([None, [" "]], "contain a character"),
        ([None, [[28]]], "from 0 to 27"),
        ([None, [[9, 2]]], "contains 2"),
        ([None, [[0]]], "contains 0"),
        (7, "for each of the 2 sources"),
        ([None, b"a"], "Pass a list with one phrase"),
    ],
    ids=str,
)
def test_generate_of_keras_rejects_wrong_phrases(model, tokenizers, constraints, message):
    with pytest.raises(ValueError, match=message):
        model.generate(SOURCE[:2], *tokenizers, constraints=constraints)


def test_litert_file_reads_phrases_of_several_sizes(litert_file, onnx_file):
    """The axes of phrases, alternatives and tokens are dynamic, and another call has no phrases."""
    translator, other = Translator(litert_file), Translator(onnx_file)
    many = [["hund", "katze", "baum"], ["knochen"], None, [["vögel", "ein baum", "schläft"]]]
    for phrases in (None, PHRASES, many, PHRASES, [["e"], None, None, None]):
        found = translator.translate(SOURCE, constraints=phrases)
        expected = other.translate(SOURCE, constraints=phrases)
        for result, same in zip(found, expected, strict=True):
            assert result.token_ids == same.token_ids
            assert result.constraints_met == same.constraints_met
            assert_close(result.score, same.score, 1e-4)
    assert [*map(all, map(contains, translator(SOURCE, constraints=many), many))] == [True] * 4


def test_steps_equal_the_whole_file(onnx_file, steps):
    expected = Translator(onnx_file).translate(SOURCE, constraints=PHRASES, num_hypotheses=2)
    translator = StreamingTranslator(steps)
    assert translator.translate(SOURCE, constraints=PHRASES, num_hypotheses=2) == expected
    for text, phrases, result in zip(SOURCE, PHRASES, expected, strict=True):
        assert [*translator.stream(text, constraints=phrases)][-1] == result.text


def test_saved_model_equals_the_onnx_file(onnx_file, model, tokenizers, tmp_path):
    import tensorflow as tf

    report = export_saved_model(model, tmp_path / "saved", *tokenizers, accept_constraints=True)
    assert report.all_equal == 1
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    assert len(loaded.translate_texts(SOURCE)["text"]) == len(SOURCE)
    ids = tokenizers[1].encode(["hund"])
    found = loaded.translate_texts(SOURCE[:1], constraint_ids=[[[ids[0]]]])
    (expected,) = Translator(onnx_file).translate(SOURCE[:1], constraints=[["hund"]])
    assert found["text"][0, 0].numpy().decode() == expected.text
    assert found["constraints_met"].numpy().all()


def test_a_prefix_and_ids_go_with_phrases(onnx_file, tokenizers):
    translator, (source, target) = Translator(onnx_file), tokenizers
    ids = target.encode(["hund"])[0]
    (result,) = translator.translate(SOURCE[:1], "ein", constraints=[["hund"]])
    assert result.text.startswith("ein") and contains(result.text, ["hund"]) == [True]
    (same,) = translator.translate_ids(
        source.encode(SOURCE[:1]), target.encode(["ein"])[0], constraints=[[np.array(ids)]]
    )
    assert same.token_ids == result.token_ids


@pytest.mark.parametrize(
    "constraints, error, message",
    [
        ("hund", ValueError, "a list of phrases for each sentence"),
        ([["hund"]], ValueError, "Received: only 1"),
        (["hund", None], InputError, "Pass a list with one phrase"),
        ([None, [3.5]], InputError, "string or a list of ids"),
        ([None, [[]]], InputError, "at least one alternative"),
        ([None, [""]], InputError, "1 to 16384 characters"),
        ([None, ["Ω"]], InputError, "vocabulary contains"),
        ([None, [[28]]], InputError, r"in \[0, 28\)"),
        ([None, [[2]]], InputError, "never generates"),
    ],
    ids=str,
)
def test_wrong_phrases_are_errors(onnx_file, constraints, error, message):
    with pytest.raises(error, match=message):
        Translator(onnx_file).translate(SOURCE[:2], constraints=constraints)


def test_file_without_constraints_says_how_to_export(exported):
    with pytest.raises(ModelFileError, match="accept_constraints=True"):
        Translator(exported[0]).translate(SOURCE[:1], constraints=[["hund"]])


def test_other_searches_and_formats_are_errors(translator, tokenizers, tmp_path):
    sampler = with_search(translator, SamplingDecoder)
    with pytest.raises(ValueError, match="only for a BeamDecoder without groups"):
        export_onnx(sampler, tmp_path / "model.onnx", *tokenizers, accept_constraints=True)
    with pytest.raises(TypeError, match="accept_constraints"):
        export_onnx_text(translator, tmp_path / "model", *tokenizers, accept_constraints=True)


def run_command(file, *arguments):
    command = [sys.executable, "-m", "keras_attn_runtime", "translate", file, *arguments]
    text = "".join(f"{line}\n" for line in SOURCE)
    return subprocess.run(map(str, command), input=text, capture_output=True, text=True)


def test_command_reads_a_glossary_and_phrases(onnx_file, tmp_path):
    (tmp_path / "terms.tsv").write_text("dog\thund\nCat\tbaum\n")
    (tmp_path / "phrases.txt").write_text("katze\n\nvögel|baum\tfrisst\n\n")
    glossary = ["--glossary", tmp_path / "terms.tsv", "--format", "jsonl"]
    lines = run_command(onnx_file, *glossary).stdout.splitlines()
    results = [json.loads(line) for line in lines]
    assert [result.get("constraints_met") for result in results] == [None, [True], None, [True]]
    expected = Translator(onnx_file).translate(SOURCE, constraints=[None, ["hund"], None, ["hund"]])
    assert [result["text"] for result in results] == [result.text for result in expected]

    both = run_command(onnx_file, *glossary, "--constraints", tmp_path / "phrases.txt")
    phrases = [["katze"], ["hund"], [["vögel", "baum"], "frisst"], ["hund"]]
    for line, own in zip(both.stdout.splitlines(), phrases, strict=True):
        assert all(json.loads(line)["constraints_met"])
        assert all(contains(json.loads(line)["text"], own))


def test_width_and_phrases_are_inputs_of_one_file(model, tokenizers, onnx_file, tmp_path):
    options = {"accept_constraints": True, "runtime_settings": ["beam_width"]}
    report = export_onnx(model, tmp_path / "model.onnx", *tokenizers, **options)
    assert report.all_equal == 1
    translator = Translator(tmp_path / "model.onnx")
    expected = Translator(onnx_file).translate(SOURCE, constraints=PHRASES)
    assert translator.translate(SOURCE, constraints=PHRASES, beam_width=4) == expected
    for result, phrases in zip(
        translator.translate(SOURCE, constraints=PHRASES, beam_width=2), PHRASES, strict=True
    ):
        assert all(contains(result.text, phrases))


def test_the_number_of_phrases_is_limited(onnx_file):
    with pytest.raises(InputError, match="at most 64 phrases"):
        Translator(onnx_file).translate(SOURCE[:1], constraints=[["hund"] * 65])


class SpacedPieces:
    """Tokenizer of a byte-level vocabulary: a word has other tokens after a space."""

    vocabulary_size, unknown_token_id, end_token_id = 12, 3, 2
    pieces = ["", "", "", "?", "cat", " cat", "a", "s", "。", "猫", " 猫", " "]

    def decode(self, ids):
        return ["".join(self.pieces[each] for each in row) for row in ids]

    def encode(self, texts):
        return [self.ids(text) for text in texts]

    def ids(self, text):
        longest_first = sorted(range(4, 12), key=lambda token: -len(self.pieces[token]))
        ids = []
        while text:
            token = next((each for each in longest_first if text.startswith(self.pieces[each])), 3)
            ids.append(token)
            text = text[max(1, len(self.pieces[token])) :]
        return ids


class OneByOne(SpacedPieces):
    def decode(self, ids):
        return super().decode([ids])[0]

    def encode(self, text):
        return self.ids(text)


def test_words_begin_with_a_space_or_in_a_script_without_spaces(onnx_file, translator):
    """A phrase at the beginning of a text has tokens that could also end another word."""
    starts = word_starts(SpacedPieces())
    settings = Translator(onnx_file).settings
    reader = ConstraintReader(settings, OneByOne(), 100)
    for phrase, expected in [("cat", [[5]]), ("猫", [[9], [10]]), ("cats", [[5, 7]])]:
        (rows,) = keras_constraints.read_constraints(
            [[phrase]], 1, SpacedPieces(), translator.search, starts
        )
        assert sorted(rows[0]) == expected
        assert sorted(reader.read_phrase(phrase)) == expected


def test_command_reads_a_named_pipe(onnx_file, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = "katze\n" * len(SOURCE)
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[text])
    writer.start()
    process = run_command(onnx_file, "--constraints", tmp_path / "pipe")
    writer.join()
    assert process.returncode == 0
    assert all(contains(line, ["katze"])[0] for line in process.stdout.splitlines())


def test_command_names_wrong_phrases(onnx_file, exported, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"katze\nschl\xe4ft\n\n\n")
    (tmp_path / "unknown.tsv").write_text("cat\tkatze\ndog\tΩ\n")
    (tmp_path / "short.txt").write_text("katze\n")
    (tmp_path / "wrong.tsv").write_text("dog\n")
    for file, arguments, message in [
        (onnx_file, ["--constraints", tmp_path / "short.txt"], "fewer lines"),
        (onnx_file, ["--constraints", tmp_path / "missing.txt"], "missing.txt"),
        (onnx_file, ["--glossary", tmp_path / "wrong.tsv"], "with other lines: 1"),
        (onnx_file, ["--glossary", tmp_path / "unknown.tsv"], "unknown.tsv', term 'dog'"),
        (onnx_file, ["--constraints", tmp_path / "latin.txt"], "latin.txt', line 2"),
        (exported[0], ["--constraints", tmp_path / "short.txt"], "--accept-constraints"),
    ]:
        process = run_command(file, *arguments)
        assert process.returncode == 1 and message in process.stderr
        assert "Traceback" not in process.stderr
