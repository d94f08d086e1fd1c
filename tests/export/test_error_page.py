"""The messages in docs/errors.md are those that users see."""

import os
import re
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import onnx
import pytest
from keras_attn_runtime import Classifier, DeadlineExceeded, Forecaster, InputError, Translator

import keras_attn
from keras_attn.export import ExportError, export_functional_onnx, export_onnx
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.precision_report import PrecisionReport
from keras_attn.export._require import require, require_tensorflow
from keras_attn.text import ParallelCorpus, SentencePieceTokenizer
from keras_attn.training import BestCheckpoint, compile_for_training, enable_lora
from keras_attn.visualize import plot_alignments
from keras_attn_commands import evaluate
from keras_attn_commands.train.run_files import check_earlier_training
from keras_attn_commands.train.settings import TrainingSettings
from keras_attn_commands.translation_scores import score_translations
from tests.page_blocks import ROOT, blocks
from tests.runtime.fake_classifier import write_classifier
from tests.runtime.fake_model import build_model, metadata, train_tokenizer

LISTED = [" ".join(block.split()) for block in blocks("errors.md", "")]


def require_listed(message):
    """Fails if the page does not contain a message; `...` in the page stands for any text."""
    text = " ".join(str(message).split())
    patterns = [re.escape(each).replace(r"\.\.\.", ".*") for each in LISTED]
    assert any(re.fullmatch(pattern, text) for pattern in patterns), text


def call(function, *arguments, error=ValueError, **named):
    """Calls a function that must fail with a message of the page."""
    with pytest.raises(error) as caught:
        function(*arguments, **named)
    require_listed(caught.value)


@pytest.fixture(scope="module")
def model():
    encoder, decoder = keras_attn.rnn_seq2seq(12, 12, units=4, embedding_dim=4)
    trainer = keras_attn.TrainingModel(encoder, decoder)
    compile_for_training(trainer)
    search = keras_attn.BeamDecoder(decoder, beam_width=2)
    return trainer, keras_attn.GenerationModel(encoder, search)


@pytest.fixture
def tokenizer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("the cat sleeps\n" * 3, encoding="utf-8")
    return SentencePieceTokenizer.train("text", 20, "char")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Enters a folder with a translator and a classifier."""
    monkeypatch.chdir(tmp_path)
    onnx.save(build_model(metadata(train_tokenizer())), "model.onnx")
    write_classifier("classifier.onnx", train_tokenizer())


def test_page_has_no_empty_and_no_repeated_message():
    assert len(set(LISTED)) == len(LISTED) >= 25 and all(len(each) > 25 for each in LISTED)


def test_each_message_is_on_one_page():
    """Other guides link to a message, they do not repeat it."""
    pages = [each for each in (ROOT / "docs").glob("*.md") if each.name != "errors.md"]
    texts = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in pages}
    beginnings = [each.split("...")[0][:40] for each in LISTED]
    repeated = [
        (name, beginning)
        for beginning in beginnings
        for name, text in texts.items()
        if len(beginning) > 20 and beginning in text and name != "exported_operations.md"
    ]
    assert not repeated


def test_messages_of_missing_packages(files, monkeypatch):
    # If onnxruntime were first imported below, other tests would import it without its submodules.
    pytest.importorskip("onnxruntime")
    model = build_model(metadata(train_tokenizer(), source__tokenizer="tokenizers"))
    onnx.save(model, "hugging_face.onnx")
    for module in ("matplotlib", "onnxruntime", "tf2onnx"):
        monkeypatch.setitem(sys.modules, module, None)
    call(plot_alignments, np.ones((1, 2)), ["a", "b"], ["c"], error=ImportError)
    call(Translator, "model.onnx", error=ImportError)
    call(require, "tf2onnx", error=ImportError)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _: None)
        call(require_tensorflow, error=ImportError)
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    call(Translator, "hugging_face.onnx", error=ImportError)


def test_messages_of_loading(model, tmp_path):
    path = tmp_path / "model.keras"
    model[1].save(path)
    program = f"import keras; keras.saving.load_model({str(path)!r})"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, encoding="utf-8"
    )
    require_listed(next(re.finditer(r"Could not locate class[^\n]*", found.stderr))[0])
    call(lambda: keras_attn.SentencePieceTokenizer, error=AttributeError)


def test_messages_of_layers_and_searches(model, tokenizer):
    trainer, translator = model
    rows = np.ones((1, 2, 3), "float32")
    call(keras_attn.BahdanauAttention(4), [rows, rows])
    for mask in (np.ones((1, 5), bool), np.array([[0.0, -1e9]], "float32")):
        with pytest.raises(ValueError, match="attention_mask") as caught:
            keras_attn.BahdanauAttention(4)(rows, rows, attention_mask=mask)
        require_listed(re.search(r"Expected [^\x1b\n]*", str(caught.value))[0])
    call(keras_attn.BeamDecoder, translator.search.decoder, num_beams=3)
    call(translator.generate, ["the cat"])
    call(translator.generate, "the cat")
    encoder, decoder = keras_attn.rnn_seq2seq(9, 9, units=4, embedding_dim=4)
    small = keras_attn.GenerationModel(encoder, keras_attn.GreedyDecoder(decoder))
    call(small.generate, ["the cat"], source_tokenizer=tokenizer, target_tokenizer=tokenizer)


def test_messages_of_training(model, tokenizer):
    trainer, _ = model
    ids = np.ones((2, 3), int)
    call(trainer.fit, ids, ids, verbose=0)
    named = {"source_ids": ids, "target_ids": ids}
    monitor = [BestCheckpoint("best.keras", monitor="val_loss")]
    call(trainer.fit, named, ids, verbose=0, callbacks=monitor)
    Path("other").write_text("a cat\n", encoding="utf-8")
    ParallelCorpus.encode("text", "text", tokenizer, tokenizer, 30, 30, "corpus")
    arguments = ("other", "other", tokenizer, tokenizer, 30, 30, "corpus")
    call(ParallelCorpus.encode, *arguments, error=FileExistsError)
    call(enable_lora, trainer)
    with_attention = keras.Sequential([keras.layers.Dense(1)])
    with_attention.compile()
    call(enable_lora, with_attention)


def test_messages_of_run_directories(tmp_path):
    settings = TrainingSettings(run_dir=tmp_path)
    (tmp_path / "history.json").write_text("{}", encoding="utf-8")
    call(check_earlier_training, settings, {}, (), ())
    (tmp_path / "settings.toml").write_text("[data_sha256]\ntrain = 'a'\n", encoding="utf-8")
    (tmp_path / "model.keras").touch()
    call(check_earlier_training, settings, {"train": "b"}, (), ())


def test_messages_of_evaluations(tmp_path, monkeypatch):
    files = {"source": tmp_path / "test.en", "target": tmp_path / "test.de"}
    for lines, path in enumerate(files.values(), 1):
        path.write_text("a\n" * lines, encoding="utf-8")
    call(evaluate._read, files)
    model = SimpleNamespace(model=files["source"], source=None, target=None)
    call(evaluate._check_paths, model)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    call(score_translations, ["a"], ["a"], error=ImportError)


def test_messages_of_exports(model, tokenizer, monkeypatch):
    trainer, translator = model
    call(export_onnx, trainer, "new.onnx")
    Path("other.onnx").write_bytes(b"years of work")
    call(export_onnx, translator, "other.onnx", error=FileExistsError)
    strings = keras.Input((), dtype="string")
    layer = keras.layers.Lambda(lambda values: values, output_shape=())
    call(export_functional_onnx, keras.Model(strings, layer(strings)), "new.onnx", ["a"])
    call(ParityReport(best_equal=0.5).check, error=ExportError)
    call(PrecisionReport("int8", 200, 0.5, 0.4).check, error=ExportError)
    with monkeypatch.context() as patch:
        patch.setattr("keras.backend.backend", lambda: "jax")
        call(require, error=RuntimeError)


def test_messages_of_weights_that_are_not_finite_and_of_unused_ids(tokenizer):
    size = tokenizer.vocabulary_size + 2
    encoder, decoder = keras_attn.rnn_seq2seq(size, size, units=4, embedding_dim=4)
    translator = keras_attn.GenerationModel(encoder, keras_attn.GreedyDecoder(decoder))
    translator.weights[0].assign(np.nan * translator.weights[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(export_onnx, translator, "new.onnx", tokenizer, error=ExportError)
    require_listed(next(each.message for each in caught if "no text" in str(each.message)))


def test_messages_of_files(files):
    call(Translator, "classifier.onnx")
    call(Classifier, "model.onnx")
    call(Forecaster, "model.onnx")
    with zipfile.ZipFile("model.keras", "w") as archive:
        for name in ("config.json", "metadata.json"):
            archive.writestr(name, "{}")
    call(Translator, "model.keras")
    model = onnx.load("model.onnx")
    del model.metadata_props[:]
    onnx.save(model, "foreign.onnx")
    call(Translator, "foreign.onnx")


def test_messages_of_missing_tokenizers(files):
    for missing in (["target"], ["source", "target"]):
        settings = {f"{side}__tokenizer": "none" for side in missing}
        onnx.save(build_model(metadata(train_tokenizer(), **settings)), "ids.onnx")
        call(Translator("ids.onnx", num_threads=1), ["two dogs"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_messages_of_calls(files, monkeypatch):
    translator = Translator("model.onnx", num_threads=1)
    call(translator, ["two dogs " * 400], error=InputError)
    call(translator, "two dogs")
    call(translator.translate, ["two dogs"], num_hypotheses=9)
    call(translator.translate, ["two dogs"], num_beams=9, error=TypeError)
    call(translator.translate, ["two dogs"], temperature=0.7)
    call(translator, ["two dogs"], target_prefix="a")
    call(translator, ["two dogs"], timeout=0, error=DeadlineExceeded)
    call(Translator, "model.onnx", providers="cuda")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    call(translator, ["two dogs"], error=RuntimeError)
