import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator

from keras_attn._models.vocabulary_side import Side
from keras_attn.export import ExportError, export_onnx_text
from keras_attn.export._formats.export_onnx_text import ODD_TEXTS, PROGRAM
from keras_attn.export._trace.text_graph import MAX_CHARACTERS, add_text
from keras_attn.text import SentencePieceTokenizer
from tests.export.small_translator import SOURCE, make_translator
from tests.runtime.endless import within_a_minute
from tests.runtime.fake_model import SENTENCES, build_model, train_tokenizer
from tests.runtime.test_source_characters import WRITING_SYSTEMS

pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")


def run(path, *batches):
    """Translates each batch in a process without TensorFlow."""
    process = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), str(path)],
        input=json.dumps(batches),
        capture_output=True,
        text=True,
    )
    # RE2 truncates long texts and reports when it switches to an algorithm with less memory.
    others = [line for line in process.stderr.splitlines() if "re2.cc" not in line and line.strip()]
    assert process.returncode == 0 and not others, process.stderr  # and no warnings
    return json.loads(process.stdout)


def required_inputs(model):
    return [value for value in model.graph.input if not value.type.HasField("optional_type")]


@pytest.fixture(scope="module")
def text_file(translator, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "model.onnx"
    report = export_onnx_text(translator, path, *tokenizers, parity_sentences=SOURCE)
    assert report.sentences >= 200 and report.best_equal == 1
    return path


def test_gives_the_texts_of_the_runtime(text_file, exported):
    translator, texts = Translator(exported[0]), [*SOURCE, *ODD_TEXTS]
    for options in ({}, {"max_length": 4}):
        translations = translator.translate(texts, num_hypotheses=2, **options)
        expected = [[each.text for each in one.hypotheses] for one in translations]
        expected = [each if len(each) == 2 else ["", ""] for each in expected]
        assert len({each[0] for each in expected}) > 4
        assert run(text_file, {"text": texts, **options}) == [expected]


def test_gives_the_numbers_of_the_runtime(text_file, exported):
    program = """
import json, sys
import numpy as np
import onnxruntime, onnxruntime_extensions
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feeds = {"text": np.array(json.loads(sys.argv[2]), object)}
if len(sys.argv) > 3:
    feeds["length_penalty"] = np.array(float(sys.argv[3]), np.float32)
print(json.dumps([each.tolist() for each in session.run(["scores", "log_probs"], feeds)]))
"""
    texts, translator = [*SOURCE, "", " "], Translator(exported[0])
    for options in ({}, {"length_penalty": 0.25}):
        arguments = [text_file, json.dumps(texts), *map(str, options.values())]
        process = subprocess.run(
            [sys.executable, "-P", "-c", program, *arguments], capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr
        received = np.array(json.loads(process.stdout))  # (2, texts, hypotheses)
        for index, one in enumerate(translator.translate(SOURCE, num_hypotheses=2, **options)):
            expected = [[each.score, each.log_prob] for each in one.hypotheses]
            np.testing.assert_allclose(received[:, index].T, expected, rtol=1e-5)
        assert not received[:, len(SOURCE) :].any()


def test_only_the_text_has_to_be_given(text_file):
    model = onnx.load(text_file)
    settings = ["max_length", "length_penalty"]
    settings += ["min_length", "beam_width", "num_hypotheses", "patience"]
    assert [value.name for value in model.graph.input] == ["text", *settings]
    assert [value.name for value in required_inputs(model)] == ["text"]
    assert [value.name for value in model.graph.output] == ["translations", "scores", "log_probs"]
    assert {each.domain for each in model.opset_import} == {"", "ai.onnx.contrib"}
    assert [entry.key for entry in model.metadata_props] == ["keras_attn.card"]


def test_translations_begin_as_they_are_told_to(translator, tokenizers, exported, tmp_path):
    path = tmp_path / "model.onnx"
    report = export_onnx_text(translator, path, *tokenizers, accept_target_prefix=True)
    assert report.best_equal > 0.95
    model = onnx.load(path)
    assert [each.name for each in model.graph.input][:2] == ["text", "target_prefix"]
    assert [each.name for each in required_inputs(model)] == ["text"]
    prefixes = ["die", "ein hund", "", "zwei"]
    own, same, nothing, no_texts = run(
        path,
        {"text": SOURCE, "target_prefix": prefixes},
        {"text": SOURCE, "target_prefix": prefixes[1:2]},
        {"text": SOURCE},
        {"text": [], "target_prefix": []},
    )
    for translations, prefix in zip(own, prefixes, strict=True):
        assert all(text.startswith(prefix) for text in translations)
    assert all(text.startswith("ein hund") for text, _ in same) and same[1] == own[1]
    expected = [each.text for each in Translator(exported[0]).translate(SOURCE)]
    assert [best for best, _ in nothing] == expected and nothing[2] == own[2]
    assert no_texts == []


@pytest.fixture
def copying(tmp_path):
    """Writes a model whose first hypothesis is the source and whose second is empty."""

    def write(target_tokenizer=None, max_characters=1000):
        source = SentencePieceTokenizer(train_tokenizer())
        function = SimpleNamespace(
            defaults={"max_length": 100, "length_penalty": 1.0},
            accepts_empty_texts=False,
            source=Side(source.vocabulary_size, 0, None, 2, add_end=True),
            target=Side(source.vocabulary_size, 0, 1, 2),
            accept_target_prefix=False,
        )
        model = build_model({}, alignments=False)
        add_text(model, source, target_tokenizer or source, function, max_characters)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, tmp_path / "copying.onnx")
        return tmp_path / "copying.onnx"

    return write


def test_a_model_that_copies_gives_the_text_back(copying):
    texts = [*SENTENCES, "", " ", "some   text ", "a"]
    plain = [" ".join(text.split()) for text in texts]
    (copies, nothing, blank, one) = run(
        copying(),
        *({"text": each} for each in (texts, [], ["", ""], SENTENCES[:1])),
    )
    assert copies == [[text, ""] for text in plain]
    assert nothing == [] and blank == [["", ""]] * 2 and one == [[SENTENCES[0], ""]]


@pytest.mark.parametrize("limit", [1, 8, 1000, MAX_CHARACTERS])
def test_a_long_text_is_cut_at_its_characters(copying, limit):
    path = copying(max_characters=limit)
    text = "a dog\nran" * (limit // 9 + 1)
    others = ["\U0001f469" * limit, "\U0001f469" * (limit + 1) + "a"]
    for texts in ([text, text[:limit], "a"], others, [text[:limit]]):
        cut, whole = run(path, {"text": texts}, {"text": [each[:limit] for each in texts]})
        assert cut == whole


@pytest.mark.slow
@pytest.mark.parametrize("text", WRITING_SYSTEMS.values(), ids=list(WRITING_SYSTEMS))
def test_a_text_of_ten_megabytes_is_cut(copying, text):
    path = copying(max_characters=16_384)
    result = within_a_minute(lambda: run(path, {"text": [text]}))
    assert result == run(path, {"text": [text[:16_384]]})


def test_a_limit_of_characters_out_of_range(translator, tokenizers, tmp_path):
    for limit in (0, MAX_CHARACTERS + 1, 1.5, True):
        with pytest.raises(ValueError, match="max_source_characters"):
            export_onnx_text(
                translator, tmp_path / "x.onnx", *tokenizers, max_source_characters=limit
            )


def test_ids_beyond_the_target_vocabulary_are_unknown(copying):
    target = SentencePieceTokenizer(train_tokenizer(40))
    source = SentencePieceTokenizer(train_tokenizer())
    ids = source.encode(SENTENCES)
    assert target.vocabulary_size < max(map(max, ids)) < source.vocabulary_size
    expected = [[i if i < target.vocabulary_size else 3 for i in row] for row in ids]
    (found,) = run(copying(target), {"text": SENTENCES})
    assert [best for best, _ in found] == target.decode(expected)


def test_a_disagreement_leaves_the_old_file(
    translator, tokenizers, exported, tmp_path, monkeypatch
):
    module = sys.modules["keras_attn.export._formats.export_onnx_text"]
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08the old file")

    def copy_exported(model, path, *others, **options):
        path.write_bytes(exported[0].read_bytes())
        return exported[1]

    monkeypatch.setattr(module, "export_onnx", copy_exported)
    right = module._run
    monkeypatch.setattr(module, "_run", lambda *arguments: [[["x", "y"]], *right(*arguments)[1:]])
    with pytest.raises(ExportError, match=r"Expected the texts .* Received: \['x', 'y'\]"):
        export_onnx_text(translator, path, *tokenizers)
    assert path.read_bytes() == b"\x08the old file" and list(tmp_path.iterdir()) == [path]


def test_says_what_to_install(translator, tokenizers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[strings\]'"):
        export_onnx_text(translator, tmp_path / "model.onnx", *tokenizers)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"`onnx` .*, `onnxruntime_extensions` .*\[strings\]"):
        export_onnx_text(translator, tmp_path / "model.onnx", *tokenizers)


@pytest.mark.slow
def test_a_tokenizer_that_spells_bytes(tmp_path):
    """Random ids include NUL, which ends a text in the operators."""
    (tmp_path / "text").write_text("\n".join(SOURCE), encoding="utf-8")
    tokenizer = SentencePieceTokenizer.train(tmp_path / "text", 290, "bpe", byte_fallback=True)
    assert tokenizer.pieces([4]) == ["<0x00>"]
    sizes = [tokenizer.vocabulary_size] * 2
    model = make_translator(vocabulary_sizes=sizes, max_length=6, return_top_tokens=2)
    assert export_onnx_text(model, tmp_path / "model.onnx", tokenizer).best_equal == 1
    outputs = {each.name for each in onnx.load(tmp_path / "model.onnx").graph.output}
    assert outputs == {"translations", "scores", "log_probs"}  # callers do not see the tokens


def test_the_runtime_knows_it_from_a_damaged_file(text_file):
    with pytest.raises(ModelFileError, match="inputs are strings. The file needs onnxr"):
        Translator(text_file)
