"""Settings of training programs: options, TOML files, checks, and what a run directory keeps."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from keras_attn_checks.options import flag_name
from keras_attn_commands.main import main
from keras_attn_commands.train import run_files
from keras_attn_commands.train.command import PROGRAMS
from keras_attn_commands.train.settings import (
    check_settings,
    groups,
    read_settings,
    to_toml,
    values_of,
)
from keras_attn_commands.train.translation_settings import TranslationSettings


@pytest.fixture(params=list(PROGRAMS))
def program(request):
    return request.param


def test_help_describes_every_setting_with_its_default(program, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", program, "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for _, fields in groups(PROGRAMS[program].settings):
        for field in fields:
            assert flag_name(field) in text
            assert field.type is bool or f"{field.metadata['text'].split()[-1]}. Default: " in text
    assert text.count("Default: ") > 10 and "Default: None" not in text


def test_shown_settings_are_a_configuration_file(program, tmp_path, capsys):
    assert main(["train", program, "--run-dir", "out", "--seed", "7", "--show-settings"]) == 0
    shown = capsys.readouterr().out
    config = tmp_path / "config.toml"
    config.write_text(f"{shown}\n[data_sha256]\n'train.source' = 'ab'\n", encoding="utf-8")
    options = ["--config", str(config), "--patience", "3", "--show-settings"]
    assert main(["train", program, *options]) == 0
    values = tomllib.loads(capsys.readouterr().out)
    assert values["seed"] == 7 and values["run_dir"] == "out" and values["patience"] == 3
    assert values == tomllib.loads(shown) | {"patience": 3}


def test_values_are_written_and_read(tmp_path):
    settings = PROGRAMS["translation"].settings(
        data=Path('a "b" é'), dropout=0.5, separate_vocabularies=True
    )
    path = tmp_path / "settings.toml"
    path.write_text(to_toml(values_of(settings), {"dropout": "3,000 pairs"}), encoding="utf-8")
    assert "dropout = 0.5  # 3,000 pairs\n" in path.read_text(encoding="utf-8")
    read = PROGRAMS["translation"].settings(**read_settings(path, type(settings)))
    check_settings(read)
    assert read == settings


@pytest.mark.parametrize(
    "options, message",
    [
        (["--epochs", "0"], "Expected --epochs to be a positive integer or None. Received: --epo"),
        (["--seed", "-1"], "Received: --seed -1"),
        (["--data", "build/run"], "--run-dir"),
    ],
)
def test_wrong_settings_are_one_line(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build" / "run").mkdir(parents=True)
    assert main(["train", "translation", *options]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("epoch = 3\n", "Received: epoch. Did you mean epochs?"),
        ("epochs = \n", "Expected a TOML file. Received: "),
        ('epochs = "many"\n', "Expected --epochs to be a positive integer or None"),
        ('model = "lstm"\n', "Expected --model to be one of ['rnn', 'transformer']"),
    ],
)
def test_wrong_configuration_files_are_one_line(tmp_path, text, message, capsys):
    config = tmp_path / "config.toml"
    config.write_text(text, encoding="utf-8")
    assert main(["train", "translation", "--config", str(config)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_settings_are_declared_with_help(program):
    for field in dataclasses.fields(PROGRAMS[program].settings):
        assert field.metadata["flag"].help and field.metadata["text"], field.name


def begin(run, checksums, trained=True, **values):
    settings = TranslationSettings(run_dir=run, **values)
    run_files.begin_training(settings, checksums, {}, {"data"})
    (run / "source.spm").touch()
    if trained:
        (run / "state").mkdir(exist_ok=True)


def test_a_run_directory_belongs_to_one_training(tmp_path):
    checksums = {"train.source": "ab"}
    begin(tmp_path, checksums, dropout=0.1, data=Path("a"), epochs=5)
    begin(tmp_path, checksums, dropout=0.1, data=Path("b"), epochs=9)
    with pytest.raises(ValueError, match=r"differences in dropout = 0.1 \(now 0.2\)\. Choose"):
        begin(tmp_path, checksums, dropout=0.2)
    with pytest.raises(ValueError, match=r"differences in the text of train.source\. Choose"):
        begin(tmp_path, {"train.source": "cd"}, dropout=0.1)
    with pytest.raises(ValueError, match=r"differences in dropout"):
        begin(tmp_path, checksums, dropout=0.2, overwrite=True, dry_run=True)
    assert (tmp_path / "source.spm").exists()
    begin(tmp_path, checksums, trained=False, dropout=0.2, overwrite=True)
    assert not (tmp_path / "state").exists()


def test_what_was_never_trained_is_replaced(tmp_path):
    begin(tmp_path, {}, trained=False, dropout=0.1)
    settings = TranslationSettings(run_dir=tmp_path, dropout=0.2)
    run_files.check_earlier_training(settings, {}, (), ["seed"])
    assert (tmp_path / "source.spm").exists()
    run_files.check_earlier_training(settings, {}, ())
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_another_program_is_not_replaced(tmp_path):
    (tmp_path / "model.keras").touch()
    with pytest.raises(ValueError, match=r"with model.keras but without settings.toml"):
        run_files.check_earlier_training(TranslationSettings(run_dir=tmp_path), {}, ())
    assert (tmp_path / "model.keras").exists()


def test_the_data_of_the_user_are_not_replaced(tmp_path, monkeypatch, capsys, program):
    """A run directory that is the parent of a folder `data`, which the user wrote."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.en").write_text("one\n")
    assert main(["train", program, "--data", "data", "--run-dir", "."]) == 1
    error = capsys.readouterr().err
    assert "--run-dir/data, which a training replaces. Received: --data data" in error
    with pytest.raises(ValueError, match=r"with data but without settings.toml"):
        run_files.check_earlier_training(TranslationSettings(run_dir=tmp_path), {}, ())
    assert (tmp_path / "data" / "train.en").read_text() == "one\n"


def test_an_unfinished_training_is_noted(tmp_path):
    assert run_files.unfinished_note(tmp_path) == ""
    begin(tmp_path, {}, epochs=3)
    assert run_files.unfinished_note(tmp_path) == ("The training is not finished: 0 of 3 epochs.")
    (tmp_path / "history.json").write_text('{"history": {"loss": [3.0, 2.0, 1.0]}}')
    assert run_files.unfinished_note(tmp_path) == ""


def test_a_training_that_continues_with_more_epochs_keeps_its_automatic_warm_up(tmp_path):
    (tmp_path / "settings.toml").write_text("warmup_steps = 111\n")
    choices = {"warmup_steps": (133, "a tenth"), "units": (8, "few pairs")}

    def filled(**values):
        settings = TranslationSettings(run_dir=tmp_path, **values)
        reasons = run_files.fill_training_settings(settings, choices)
        assert settings.units == 8 and reasons["units"] == "few pairs"
        return settings.warmup_steps

    assert filled() == 133  # no training has begun
    (tmp_path / "state").mkdir()
    assert filled() == 111
    assert filled(warmup_steps=5) == 5
    assert filled(overwrite=True) == 133


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("tensorflow", "keras-attn export"),
        ("jax", "KERAS_BACKEND=tensorflow keras-attn export"),
    ],
)
def test_export_command_selects_tensorflow(backend, expected, monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: backend)
    assert run_files.export_command() == expected


def test_next_commands_of_programs_select_tensorflow(program):
    path = Path(run_files.__file__).with_name(f"{program.replace('-', '_')}.py")
    code = path.read_text(encoding="utf-8")
    assert "export_command()" in code and "keras-attn export" not in code
