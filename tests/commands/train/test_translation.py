"""The program that trains translators: its settings by the data, its warnings, and whole runs."""

import json
import os
import tomllib

import keras
import numpy as np
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("tensorflow")

from keras_attn._files.path_lock import PathLock
from keras_attn.text import PairCounts
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main
from keras_attn_commands.train import run_training, translation
from keras_attn_commands.train.translation_data import warn_of_data
from keras_attn_commands.train.translation_defaults import data_defaults, fill, training_defaults
from keras_attn_commands.train.translation_settings import TranslationSettings

SMALL = "--units 8 --embedding-dim 8 --vocabulary-size 60 --epochs 2 --evaluated 4".split()


@pytest.fixture
def pairs(tmp_path):
    """A file of 120 sentence pairs."""
    path = tmp_path / "pairs.tsv"
    words = ["one", "two", "three", "four"]
    rows = [f"{a} {b} {c}\tle {c} {b} {a}\n" for a in words for b in words for c in words]
    path.write_text("".join(rows * 2)[: 2 * 120 * 20], encoding="utf-8")
    return path


def train(*arguments):
    return main(["train", "translation", *map(str, arguments)])


@pytest.mark.slow
def test_a_training_writes_a_run_and_does_not_repeat_itself(pairs, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["--data", pairs, "--run-dir", run, *SMALL]
    assert train(*arguments) == 0
    output = capsys.readouterr().out
    assert "epoch 2 of 2: loss " in output and "val_bleu" in output
    assert output.splitlines()[-4:-2] == ["Next:", f"  keras-attn evaluate {run}"]
    settings = tomllib.loads((run / "settings.toml").read_text(encoding="utf-8"))
    assert settings["units"] == 8 and settings["data"] == str(pairs)
    history = json.loads((run / "history.json").read_text())
    assert len(history["history"]["val_loss"]) == 2 and history["arguments"]["seed"] == 1
    weights = RunDirectory(run).load_model("generation").get_weights()
    assert train(*arguments) == 0
    assert "epoch" not in capsys.readouterr().out.partition("steps in an epoch")[2]
    assert train(*arguments, "--units", 9) == 1
    assert "units = 8 (now 9)" in capsys.readouterr().err
    for before, after in zip(
        weights, RunDirectory(run).load_model("generation").get_weights(), strict=True
    ):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
def test_a_transformer_is_trained(pairs, tmp_path, capsys):
    sizes = "--layers 1 --embedding-dim 8 --heads 2 --intermediate-dim 8 --epochs 1".split()
    options = ["--model", "transformer", "--vocabulary-size", 60, "--evaluated", 2, *sizes]
    assert train("--data", pairs, "--run-dir", tmp_path / "run", *options) == 0


@pytest.mark.slow
def test_a_dry_run_trains_nothing(pairs, tmp_path, capsys):
    run = tmp_path / "run"
    assert train("--data", pairs, "--run-dir", run, *SMALL, "--dry-run") == 0
    output = capsys.readouterr().out
    assert "Dry run: " in output and " an epoch), plus up to a tenth for the evaluation, " in output
    assert not any((run / name).exists() for name in ("state", "model.keras", "run.json"))


def test_a_refused_training_changes_nothing(pairs, tmp_path, capsys):
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "data").mkdir()
    (run / "data" / "train.source").write_text("old")
    (run / "settings.toml").write_text("tokenizer = 'bpe'\n")

    def content():
        paths = [path for path in sorted(run.rglob("*")) if path.name != ".run.lock"]
        return {path: path.is_file() and path.read_bytes() for path in paths}

    before = content()
    assert train("--data", pairs, "--run-dir", run, *SMALL) == 1
    assert "the text of train.source" in capsys.readouterr().err
    assert content() == before


def test_an_interruption_says_where(pairs, tmp_path, monkeypatch, capsys):
    def interrupt(*_, callbacks, **__):
        callbacks[-1].on_train_begin()
        callbacks[-1].on_epoch_begin(2)
        callbacks[-1].on_train_batch_end(83, {})
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit", interrupt)
    assert train("--data", pairs, "--run-dir", tmp_path / "run", *SMALL) == 130
    error = capsys.readouterr().err
    assert "Stopped in epoch 3, step 84. Run the same command to continue." in error


def test_a_training_without_a_finite_loss_is_an_error(pairs, tmp_path, monkeypatch, capsys):
    def diverge(*_, **__):
        history = keras.callbacks.History()
        history.history = {"loss": [float("nan")]}
        return history

    monkeypatch.setattr(run_training, "fit", diverge)
    assert train("--data", pairs, "--run-dir", tmp_path / "run", *SMALL) == 1
    error = capsys.readouterr().err
    assert "Received: loss=nan in every epoch" in error and "lower --learning-rate" in error


def test_a_run_directory_in_use_is_refused(pairs, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    with PathLock(run, "run"):
        assert train("--data", pairs, "--run-dir", run) == 1
    assert f"process {os.getpid()} on" in capsys.readouterr().err


def test_settings_of_the_other_model_are_refused(capsys):
    assert train("--model", "transformer", "--units", 8) == 1
    message = "Expected settings of --model transformer. Received: --units 8. Remove it, or set"
    assert message in capsys.readouterr().err


def test_all_settings_of_the_other_model_are_named_at_once(tmp_path, capsys):
    config = tmp_path / "settings.toml"
    config.write_text('model = "rnn"\nunits = 8\ncell = "gru"\nattention = "luong"\n')
    assert train("--config", config, "--model", "transformer") == 1
    message = (
        "Expected settings of --model transformer. Received: --attention luong, --cell gru, "
        "--units 8. Remove them, or set --model rnn."
    )
    assert message in capsys.readouterr().err


def choices(num_pairs, **settings):
    settings = TranslationSettings(**({"data": "x"} | settings))
    chosen = data_defaults(settings, num_pairs)
    chosen |= training_defaults(settings, num_pairs, lambda tokens: 12 * num_pairs // tokens + 1)
    return {name: value for name, (value, _) in chosen.items()}


@pytest.mark.parametrize("model", ["rnn", "transformer"])
@pytest.mark.parametrize("num_pairs", [100, 3000, 30_000, 134_233, 2_000_000])
def test_the_warm_up_is_at_most_a_tenth_of_the_training(model, num_pairs):
    chosen = choices(num_pairs, model=model)
    steps = chosen["epochs"] * (12 * num_pairs // chosen["tokens_per_batch"] + 1)
    assert chosen["warmup_steps"] <= max(1, steps / 10)
    assert 500 <= chosen["vocabulary_size"] <= 8000
    given = choices(num_pairs, model=model, epochs=1)  # the warm-up follows a given setting
    assert given["warmup_steps"] <= chosen["warmup_steps"]


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "none"},
        {"attention": "bahdanau", "cell": "gru", "input_feeding": False},
        {"attention": "luong", "cell": "lstm", "input_feeding": True},
        {"attention": "multi-head"},
        {"attention": "sparsemax"},
        {"attention": "local"},
        {"attention": "coverage"},
        {"attention": "location-sensitive"},
        *(
            {"model": "transformer", "positions": positions}
            for positions in ("sinusoidal", "learned", "rotary", "alibi", "relative")
        ),
    ],
    ids=str,
)
def test_every_kind_of_model_is_made(options):
    settings = TranslationSettings(**({"data": "x", "units": 8} | options))
    if settings.model == "transformer":
        settings.units = None
    fill(settings, data_defaults(settings, 3000))
    fill(settings, training_defaults(settings, 3000, lambda tokens: 100))
    encoder, decoder = translation._make_model(settings, 20, 20)
    config = keras.saving.serialize_keras_object(decoder)
    expected = {
        "bahdanau": "BahdanauAttention",
        "luong": "LuongAttention",
        "multi-head": "MultiHeadAttention",
        "sparsemax": '"probability_fn": "sparsemax"',
        "local": "LocalAttention",
        "coverage": "CoverageAttention",
        "location-sensitive": "LocationSensitiveAttention",
        "none": '"attention": null',
    }
    text = json.dumps(config)
    assert settings.model == "transformer" or expected[settings.attention] in text
    assert ("GRUCell" in text) == (options.get("cell") == "gru")
    assert encoder.embedding.output_dim == settings.embedding_dim


@pytest.mark.parametrize(
    "switches, values",
    [
        (["--input-feeding", "--no-separate-vocabularies"], (True, False)),
        (["--no-input-feeding", "--separate-vocabularies"], (False, True)),
    ],
)
def test_both_forms_of_a_switch_are_read(switches, values, capsys):
    assert train("--show-settings", *switches) == 0
    shown = tomllib.loads(capsys.readouterr().out)
    assert (shown["input_feeding"], shown["separate_vocabularies"]) == values


@pytest.mark.parametrize("tokenizer", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("separate", [True, False])
def test_every_tokenizer_is_trained(pairs, tmp_path, tokenizer, separate):
    settings = TranslationSettings(
        data=pairs, run_dir=tmp_path, tokenizer=tokenizer, separate_vocabularies=separate
    )
    settings.vocabulary_size = 30
    translation.read_data(settings, tmp_path / "data")
    source, target = translation._train_tokenizers(settings, tmp_path / "data", lambda text: None)
    assert source.decode(source.encode(["one two"])) == ["one two"]
    assert (source.model == target.model) != separate


def test_every_setting_that_may_be_chosen_is_chosen():
    for model in ("rnn", "transformer"):
        for data in ("x", None):
            chosen = choices(3000, model=model, data=data)
            settings = TranslationSettings(model=model)
            open_settings = {name for name, value in vars(settings).items() if value is None}
            others = {"attention", "cell", "units", "input_feeding"}
            if model == "rnn":
                others = {"heads", "intermediate_dim", "positions"}
                others |= {"attention_dropout", "activation_dropout"}
            assert open_settings - {"data", "source", "target"} - others <= chosen.keys()


def warnings_of(folder, **texts):
    folder.mkdir(exist_ok=True)
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            text = texts.get(f"{split}_{side}", texts.get(f"train_{side}"))
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
    found = []
    warn_of_data(folder, texts["counts"], found.append)
    return found


def test_exchanged_languages_repeated_pairs_and_blank_sides_are_noticed(tmp_path):
    counts = {split: PairCounts(100) for split in ("train", "valid", "test")}
    english, french = "the dog and the cat\na man sleeps\n", "le chien et le chat\nun homme dort\n"
    texts = {"train_source": english, "train_target": french, "counts": counts}
    assert warnings_of(tmp_path / "right", **texts) == []
    (found,) = warnings_of(
        tmp_path / "wrong", **texts, valid_source="un chien\n", valid_target="a dog\n"
    )
    assert "two languages may be exchanged" in found and "sources of valid" in found
    lines = (3, 17, 21, 40, 41, 50)
    counts["test"] = PairCounts(100, 8, 40, "test.en and test.de", lines)
    empty, repeated = warnings_of(tmp_path / "test", **texts)
    assert empty == (
        "8 pairs of test have a blank part and are left out: lines 3, 17, 21, 40, 41 and 3 more of "
        "test.en and test.de."
    )
    assert "40 of 100 pairs of test" in repeated
