"""What the example refuses; what it makes is the subject of `make demo`."""

import sys
from types import SimpleNamespace

import pytest
import train_translation


@pytest.mark.parametrize(
    "before, changed",
    [
        ('{"vocabulary_size": 8000, "tokenizer": "char"}', "{'vocabulary_size': 8000}"),
        ('{"attention": "sparsemax", "seed": 1}', "{'attention': 'sparsemax'}"),  # as many weights
    ],
)
def test_a_run_directory_belongs_to_one_text_and_model(tmp_path, monkeypatch, before, changed):
    (tmp_path / "run.json").write_text(before)
    (tmp_path / "state").mkdir()
    monkeypatch.setattr("sys.argv", ["train_translation.py", "--run-dir", str(tmp_path)])
    monkeypatch.setattr(train_translation, "write_dates", lambda *_: pytest.fail("went on"))
    with pytest.raises(SystemExit, match="another --run-dir") as raised:
        train_translation.main()
    assert changed in str(raised.value) and not (tmp_path / "translator.keras").exists()


def test_what_was_never_trained_does_not_keep_its_directory(tmp_path):
    args = SimpleNamespace(run_dir=tmp_path, dropout=2.0)
    train_translation.check_run_dir({}, args)
    (tmp_path / "source.spm").touch()
    (tmp_path / "corpus-train").mkdir()
    args.dropout = 0.2
    train_translation.check_run_dir({}, args)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    (tmp_path / "source.spm").touch()
    train_translation.check_run_dir({}, args)
    assert (tmp_path / "source.spm").exists()
    (tmp_path / "translator.keras").touch()
    args.dropout = 0.3
    with pytest.raises(SystemExit, match="holds a training of another"):
        train_translation.check_run_dir({}, args)
    assert (tmp_path / "source.spm").exists()
    args.dropout = None  # as an option of the other model was written before
    train_translation.check_run_dir({}, args)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--model", "transformer", "--no-input-feeding"], "--no-input-feeding is an option of"),
        (["--heads", "8"], "--heads is an option of --model transformer"),
        (["--source", "en"], "--source and --target need --data"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train_translation.py", *options])
    with pytest.raises(SystemExit):
        train_translation.parse_arguments()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, expected", [([], 0.02), (["--tokenizer", "bpe"], 0.02), (["--tokenizer", "char"], 0)]
)
def test_only_the_pieces_of_bpe_are_drawn_by_default(options, expected, monkeypatch):
    options = ["--data", "texts", "--model", "transformer", *options]
    monkeypatch.setattr(sys, "argv", ["train_translation.py", *options])
    assert train_translation.parse_arguments().subword_sampling == expected


def test_both_sides_of_a_split_have_the_same_name(tmp_path):
    for name in ("train.en.gz", "train.de", "val.en", "val.de"):
        (tmp_path / name).touch()
    for name in ("test_2016.en", "test_2017.en", "test_2017.de", "test_2017.de.gz", "test_2018.de"):
        (tmp_path / name).touch()
    args = SimpleNamespace(data=tmp_path, source="en", target="de")
    files = {split: path.name for split, path in train_translation.find_files(args).items()}
    assert (files["train", "source"], files["train", "target"]) == ("train.en.gz", "train.de")
    assert (files["test", "source"], files["test", "target"]) == ("test_2017.en", "test_2017.de")
    for name in ("test.en.gz", "test.de.gz"):
        (tmp_path / name).touch()
    assert train_translation.find_files(args)["test", "source"].name == "test.en.gz"
    (tmp_path / "val.en").unlink()
    with pytest.raises(SystemExit, match="No val.en and val.de"):
        train_translation.find_files(args)


def test_the_clock_goes_on_from_what_was_stored():
    clock = train_translation.Clock()
    clock.set_state([1000.0, 500.0])
    seconds, of_processors = clock.get_state()
    assert 1000 <= seconds < 1100 and 500 <= of_processors < 600


def test_the_name_of_a_side_may_be_in_that_of_the_files(tmp_path):
    for split in ("train", "val", "test.de-en"):
        for suffix in ("de", "en"):
            (tmp_path / f"{split}.{suffix}").touch()
    args = SimpleNamespace(data=tmp_path, source="de", target="en")
    files = {split: path.name for split, path in train_translation.find_files(args).items()}
    assert files["test", "source"] == "test.de-en.de" and files["test", "target"] == "test.de-en.en"


def test_a_test_set_with_a_line_missing_is_refused_before_anything_is_trained(tmp_path):
    files = {("test", "source"): tmp_path / "test.en", ("test", "target"): tmp_path / "test.de"}
    files["test", "source"].write_text("one\ntwo\n")
    files["test", "target"].write_text("eins\n")
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(SystemExit, match="test.en': 2, .*test.de': 1"):
        train_translation.copy_test_set(files, run)
    assert not list(run.iterdir())


def test_what_a_killed_preparation_left_is_removed(tmp_path):
    (tmp_path / ".corpus-train.x").mkdir()
    args = SimpleNamespace(run_dir=tmp_path, dropout=0.1)
    train_translation.check_run_dir({}, args)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    written = (tmp_path / "run.json").stat()
    train_translation.check_run_dir({}, args)  # as it is, it need not be written again
    assert (tmp_path / "run.json").stat().st_ino == written.st_ino
