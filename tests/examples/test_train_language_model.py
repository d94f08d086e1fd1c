"""Short runs of the example, and what a fresh process and ONNX Runtime make of its files."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import train_language_model

from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import RunDirectory
from tests.examples.scripts import EXAMPLES, predict, python

SCRIPT = EXAMPLES / "train_language_model.py"
SMALL = "--embedding-dim 16 --layers 1 --heads 2 --window 32 --samples 3 --sample-length 20".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of two epochs on sums, and what it reports."""
    folder = tmp_path_factory.mktemp("sums")
    options = ["--epochs", 2, "--learning-rate", 0.01, "--batch-size", 64, *SMALL]
    python(folder, SCRIPT, "--run-dir", folder, *options)
    return folder, json.loads((folder / "results.json").read_text())


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "text").write_text("abc\n\nd e\tf\n")
    return SentencePieceTokenizer.train(tmp_path / "text", 100, "char", normalizer="identity")


def arguments(**given):
    return SimpleNamespace(**{"documents": False, "valid": None, "seed": 1, **given})


@pytest.mark.slow
def test_learns_something(run):
    """Fewer bits than it takes to choose one of the 13 characters and the end."""
    _, report = run
    assert report["bits_per_character"] < np.log2(14) - 0.5


@pytest.mark.slow
def test_holds_out_sums_and_counts_their_characters(run):
    folder, report = run
    sums = (folder / "held_out.txt").read_text().split()
    assert len(set(sums)) == 500
    # Of each sum its characters and its end; of the first one the start is the first input.
    assert report["characters"] == sum(len(line) + 1 for line in sums)


@pytest.mark.slow
def test_writes_samples(run):
    samples = (run[0] / "samples.txt").read_text().removesuffix("\n").split("\n\n")
    assert len(samples) == 3
    assert all(len(sample) <= 20 and set(sample) <= set("0123456789+=\n") for sample in samples)


@pytest.mark.slow
def test_a_fresh_process_and_onnx_continue_alike(run):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, _ = run
    tokenizer = SentencePieceTokenizer.load(folder / "source.spm")
    texts = ["12+30=", "7+", "99+99="]
    prompts = train_language_model.to_prompts(texts, tokenizer, arguments(documents=True))
    expected = predict(folder / "model.keras", prompts)
    session = onnxruntime.InferenceSession(folder / "generator.onnx")
    limits = {"max_length": np.array(20, "int32"), "length_penalty": np.array(1, "float32")}
    names = ["token_ids", "scores"]
    token_ids, scores = session.run(names, {"source_ids": prompts, **limits})
    np.testing.assert_array_equal(token_ids, expected["token_ids"])
    np.testing.assert_allclose(scores, expected["scores"], atol=1e-4)


@pytest.mark.slow
def test_the_runtime_draws_sums(run):
    runtime = pytest.importorskip("keras_attn_runtime")
    writer = runtime.Translator(run[0] / "writer.onnx")
    first, again = (writer([""] * 20 + ["12+30="] * 20, seed=3) for _ in range(2))
    assert first == again and len(set(first)) > 5
    assert set("".join(first)) <= set("0123456789+=")


@pytest.mark.slow
def test_reads_a_text_of_its_own_and_a_prompt(tmp_path):
    """Held out is its end; samples go on behind the prompt, whose newline they keep."""
    text = "row, row\nrow your boat\n\n" * 100
    (tmp_path / "text").write_text(text)
    options = ["--epochs", 1, "--prompt", "row\n", *SMALL]
    python(tmp_path, SCRIPT, "--data", "text", "--run-dir", tmp_path, *options)
    samples = (tmp_path / "samples.txt").read_text()
    assert samples.startswith("row\n") and samples.count("row\n") >= 3
    held_out = (tmp_path / "held_out.txt").read_text()
    assert held_out == text[-len(text) // 20 - 1 :]


@pytest.mark.slow
def test_the_default_learns_to_add(tmp_path):
    python(tmp_path, SCRIPT, "--run-dir", tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["exact_sums"] > 0.9


def test_documents_are_divided_at_blank_lines(tmp_path):
    (tmp_path / "tunes").write_text("\n\nX:1\nabc\n\n\nX:2\ndef\n \t\nX:3\n")
    (tmp_path / "new").write_text("X:4\n")
    args = arguments(data=tmp_path / "tunes", valid=tmp_path / "new", documents=True)
    train, held_out = train_language_model.read_texts(args)
    assert sorted(train) == ["X:1\nabc", "X:2\ndef", "X:3"]
    assert held_out == ["X:4"]


def test_too_little_text_is_refused(tmp_path):
    (tmp_path / "tune").write_text("X:1\n")
    args = arguments(data=tmp_path / "tune", documents=True, window=3)
    with pytest.raises(SystemExit, match="one to hold out. Received: 1 in .*tune"):
        train_language_model.read_texts(args)
    (tmp_path / "empty").write_text("\n\n")
    args = arguments(data=tmp_path / "tune", valid=tmp_path / "empty", window=3)
    with pytest.raises(SystemExit, match="text to hold out. Received: none in .*empty"):
        train_language_model.read_texts(args)
    with pytest.raises(SystemExit, match="longer than --window 3. Received: 3 characters"):
        train_language_model.RandomWindows(np.arange(3), args)


def test_an_earlier_run_is_kept_if_the_text_is_refused(tokenizer, tmp_path, monkeypatch):
    RunDirectory.create(tmp_path / "run", "generation", tokenizer)
    (tmp_path / "run" / "held_out.txt").write_text("old")
    (tmp_path / "short").write_text("xyz\n")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    options = ["--run-dir", tmp_path / "run", "--data", tmp_path / "short", *SMALL]
    monkeypatch.setattr("sys.argv", ["train_language_model.py", *map(str, options)])
    with pytest.raises(SystemExit, match="longer than --window 32"):
        train_language_model.main()
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_the_stream_keeps_every_character(tokenizer):
    text = "abc\n\nd e\tf"
    args = arguments()
    stream = train_language_model.to_stream([text], tokenizer, args)
    assert tokenizer.decode([stream]) == [text]
    args.documents = True
    stream = train_language_model.to_stream(["abc", "d\n"], tokenizer, args)
    assert stream[[0, 4, 5, 8]].tolist() == [1, 2, 1, 2]
    assert len(stream) == 9


@pytest.mark.parametrize("length", [5, 9, 10, 12, 13, 37])
def test_overlapping_windows_predict_each_token_once(length):
    stream, window = np.arange(10, 10 + length, dtype="int32"), 8
    inputs, labels = train_language_model.overlapping_windows(stream, window)
    assert inputs.shape == labels.shape and inputs.shape[1] == window
    assert sorted(labels[labels != 0]) == stream[1:].tolist()
    rows, columns = np.nonzero(labels)
    np.testing.assert_array_equal(labels[rows, columns], inputs[rows, columns] + 1)
    assert (columns[rows > 0] >= window // 2).all()


def test_where_a_document_begins_is_not_to_be_learned():
    windows = np.array([[5, 2, 1, 6, 7]])
    inputs, labels = train_language_model.inputs_and_labels(windows)
    assert inputs.tolist() == [[5, 2, 1, 6]]
    assert labels.tolist() == [[2, 0, 6, 7]]


def test_windows_change_with_the_epoch():
    args = arguments(window=4, batch_size=2)
    batches = train_language_model.RandomWindows(np.arange(10, 100, dtype="int32"), args)
    assert len(batches) == 90 // 8
    inputs, labels = batches[0]
    assert inputs.shape == labels.shape == (2, 4)
    np.testing.assert_array_equal(labels, inputs + 1)
    batches.on_epoch_end()
    assert (batches[0][0] != inputs).any()
