"""The program that trains classifiers: settings by the data, refused texts, and whole runs."""

import json
import math
import re
import tomllib

import numpy as np
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("tensorflow")

from keras_attn.training import RunDirectory
from keras_attn_commands.classification import Classified, score_labels
from keras_attn_commands.main import main
from keras_attn_commands.train import classifier
from keras_attn_commands.train.classifier_settings import ClassifierSettings

SMALL = "--units 8 --embedding-dim 8 --batch-size 16 --learning-rate 0.05 --epochs 3".split()
WORDS = {"cold": ["ice", "snow", "frost"], "hot": ["fire", "sun", "lava"], "wet": ["rain", "sea"]}


def train(*arguments):
    return main(["train", "classifier", *map(str, arguments)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table whose label follows from one word."""
    path = tmp_path_factory.mktemp("data") / "weather.csv"
    rows = [
        f"{number},the {word} of day {number},{label}"
        for number in range(60)
        for label, words in WORDS.items()
        for word in words[:2]
    ]
    path.write_text("\n".join(["id,text,label", *rows, ",,hot", ""]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """Directory of a run on the table."""
    folder = tmp_path_factory.mktemp("run")
    assert train("--data", data, "--run-dir", folder, *SMALL) == 0
    return folder


def test_a_run_learns_and_scores_the_saved_model(run):
    results = json.loads((run / "results.json").read_text())
    assert results["labels"] == ["cold", "hot", "wet"]
    assert results["test"]["texts"] == 18 and results["test"]["accuracy"] > 0.9  # chance: 0.33
    directory = RunDirectory(run)
    assert directory.kind == "classification" and directory.labels == results["labels"]
    model = directory.load_model("classification")
    sides = [
        (run / "data" / f"valid.{side}").read_text().splitlines() for side in ("source", "target")
    ]
    assert len(sides[0]) == 18 and not set(sides[0]) & set(
        (run / "data" / "train.source").read_text().splitlines()
    )
    hits = 0
    for text, label in zip(*sides, strict=True):  # one by one, without padding
        outputs = model.predict_on_batch(np.array(directory.source_tokenizer.encode([text])))
        np.testing.assert_allclose(outputs["attention"].sum(), 1, atol=1e-5)
        hits += results["labels"][outputs["logits"].argmax()] == label
    assert results["valid"]["accuracy"] == pytest.approx(hits / 18)
    history = json.loads((run / "history.json").read_text())["history"]
    assert len(history["val_accuracy"]) == 3
    assert max(history["val_accuracy"]) == pytest.approx(hits / 18) or hits > 16
    assert 'id="examples"' in (run / "attention.html").read_text()


def test_evaluate_prints_the_figures_of_the_run(run, tmp_path, capsys):
    assert main(["evaluate", str(run), "--json", "--out", str(tmp_path / "labels")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((run / "results.json").read_text())["test"]
    assert set((tmp_path / "labels").read_text().splitlines()) <= set(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "litert"])
def test_the_exported_file_reads_texts_and_has_the_labels(run, format, tmp_path, capsys):
    runtime = pytest.importorskip("keras_attn_runtime")
    pytest.importorskip("tf2onnx")
    path = tmp_path / f"classifier.{format}"
    assert main(["export", format, str(run), str(path)]) == 0
    file = runtime.Classifier(path)
    assert file.labels == ["cold", "hot", "wet"] and file.has_attention
    capsys.readouterr()
    sides = [f"--{side}={run / 'data' / f'test.{side}'}" for side in ("source", "target")]
    assert main(["evaluate", str(path), *sides, "--json"]) == 0
    results = json.loads((run / "results.json").read_text())
    assert json.loads(capsys.readouterr().out) == results["test"]
    # Both cut texts at the --max-length of the training.
    settings = tomllib.loads((run / "settings.toml").read_text())
    text = "the ice " + "of day " * settings["max_length"]
    (received,) = runtime.Classifier(path, truncate=True).classify([text])
    directory = RunDirectory(run)
    ids = directory.source_tokenizer.encode([text])[0][: settings["max_length"]]
    logits = directory.load_model("classification").predict_on_batch(np.array([ids]))["logits"][0]
    expected = np.exp(logits) / np.exp(logits).sum()
    found = [received.probabilities[label] for label in file.labels]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["saved-model"], "one of the formats .*'onnx', 'litert'.* for a classifier"),
        (["onnx", "--search", "beam_width=2"], "for a classifier. Received: --search. Omit"),
        (["onnx", "--precision", "int8"], "--parity-sentences for a classifier. Received: --prec"),
    ],
)
def test_options_of_searches_are_refused(run, arguments, message, capsys):
    format, *options = arguments
    assert main(["export", format, str(run), "x.onnx", *options]) == 1
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


def test_a_second_run_continues_or_is_refused(run, data, tmp_path, capsys):
    before = (run / "model.keras").read_bytes()
    assert train("--data", data, "--run-dir", run, *SMALL, "--units", 9) == 1
    assert "differences in units = 8 (now 9). Choose another" in capsys.readouterr().err
    changed = tmp_path / "weather.csv"
    changed.write_text(data.read_text().replace("day 7,", "day seven,"))
    assert train("--data", changed, "--run-dir", run, *SMALL) == 1
    assert "differences in the text of train.source" in capsys.readouterr().err
    assert (run / "model.keras").read_bytes() == before
    assert train("--config", run / "settings.toml") == 0  # has ended: only evaluates
    assert (run / "model.keras").read_bytes() == before


def test_a_dry_run_only_estimates(data, tmp_path, capsys):
    options = ["--model", "transformer", "--heads", 2, "--layers", 1, "--embedding-dim", 8]
    assert train("--data", data, "--run-dir", tmp_path, *options, "--dry-run") == 0
    output = capsys.readouterr().out
    assert "train: 324 texts from weather.csv (cold 108, hot 108, wet 108)" in output
    assert "Dry run: " in output and " an epoch), if other programs use " in output
    assert "units =" not in output and "heads = 2" in output
    assert not (tmp_path / "model.keras").exists()


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", (), "Expected labelled texts. Received: "),
        (b"a\t\xe9\n", (), "Expected text in UTF-8. Received: "),
        (b"a\tx\na\ty\n", (), "Expected at least two labels. Received: only 'a' in text of "),
        (b"a\tx\nb\ty\n", ("--label-column", "c"), "names of the columns as --label-column and"),
        (b"a\tx\n" * 9, ("--heads", "2"), "Expected settings of --model rnn. Received: --heads 2."),
    ],
    ids=range(5),
)
def test_an_earlier_run_is_kept_if_the_text_is_refused(content, options, message, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.keras").write_text("")
    (run / "settings.toml").write_text("")
    (tmp_path / "text").write_bytes(content)
    assert train("--run-dir", run, "--data", tmp_path / "text", *options, "--overwrite") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert sorted(path.name for path in run.iterdir()) == ["model.keras", "settings.toml"]


@pytest.mark.parametrize(
    "model, tokenizer", [("rnn", "bpe"), ("rnn", "unigram"), ("transformer", "char")]
)
def test_every_kind_of_model_and_tokenizer_runs(model, tokenizer, data):
    settings = ClassifierSettings(
        data=data, model=model, tokenizer=tokenizer, embedding_dim=8, vocabulary_size=100
    )
    prepared = classifier.prepare(settings, [].append)
    size = prepared.tokenizer.vocabulary_size
    model = classifier.make_model(settings, size, 3)
    ids, _ = prepared.training.batch(0)
    assert 3 < ids.max() < size  # 0 to 3 are special
    assert model(ids)["logits"].shape == (len(ids), 3)


@pytest.mark.parametrize("model", ["rnn", "transformer"])
@pytest.mark.parametrize("texts", [20, 8000, 10**6])
def test_every_setting_is_chosen_and_the_warm_up_is_short(model, texts):
    settings = ClassifierSettings(data="x", model=model)
    choices = classifier.data_defaults(settings, 100 * texts)
    choices |= classifier.training_defaults(settings, texts)
    other = {"rnn": "heads", "transformer": "units"}[model]
    missing = {name for name, value in vars(settings).items() if value is None} - {other}
    assert missing == choices.keys()
    steps = choices["epochs"][0] * math.ceil(texts / choices["batch_size"][0])
    assert 100 < steps and choices["warmup_steps"][0] <= steps / 10
    assert 500 <= choices["vocabulary_size"][0] <= 8000


def test_repeated_blank_and_cut_texts_are_warned_of(tmp_path):
    for split in ("train", "valid", "test"):
        text = "x\tone two three four five\ny\tsix\n\n" * 5
        (tmp_path / f"{split}.tsv").write_text(text)
    settings = ClassifierSettings(data=tmp_path, vocabulary_size=30, max_length=4)
    warnings = []
    prepared = classifier.prepare(settings, warnings.append)
    assert "5 texts of train have a blank part" in warnings[0]
    assert "10 of 10 texts of valid are also in the training data" in warnings[2]
    assert any(
        "5 of 10 texts of train are longer than --max-length 4 tokens" in w for w in warnings
    )
    ids, _ = prepared.training.batch(0)
    assert (ids != 0).sum(axis=1).max() == 4


def test_scores_are_those_of_the_definitions():
    scores = score_labels(["a", "a", "b", "c", "a"], ["a", "b", "b", "a", "a"])
    assert scores["accuracy"] == pytest.approx(3 / 5) and scores["texts"] == 5
    assert scores["most_frequent"] == pytest.approx(3 / 5)
    assert scores["f1"] == pytest.approx({"a": 2 / 3, "b": 2 / 3, "c": 0})  # P = R = 2/3; 1, 1/2
    assert scores["macro_f1"] == pytest.approx(4 / 9)


def test_the_weights_of_a_word_are_added():
    text = Classified(np.ones(1), ["▁a", "▁fi", "lm", "."], np.array([0.3, 0.2, 0.4, 0.1]))
    assert classifier.most_read_words(text, 2) == [
        ("film.", pytest.approx(0.7)),
        ("a", pytest.approx(0.3)),
    ]
