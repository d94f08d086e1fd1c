"""Which texts a run directory takes, and what it keeps."""

from types import SimpleNamespace

import pytest
import translation_data


def test_what_was_never_trained_does_not_keep_its_directory(tmp_path):
    args = SimpleNamespace(run_dir=tmp_path, dropout=2.0)
    translation_data.check_run_dir({}, args)
    (tmp_path / "source.spm").touch()
    (tmp_path / "corpus-train").mkdir()
    args.dropout = 0.2
    translation_data.check_run_dir({}, args)
    assert [path.name for path in tmp_path.iterdir()] == ["options.json"]
    (tmp_path / "source.spm").touch()
    translation_data.check_run_dir({}, args)
    assert (tmp_path / "source.spm").exists()
    (tmp_path / "model.keras").touch()
    args.dropout = 0.3
    with pytest.raises(SystemExit, match="contains a training of a different"):
        translation_data.check_run_dir({}, args)
    assert (tmp_path / "source.spm").exists()
    (tmp_path / "options.json").unlink()  # as if joined from several
    with pytest.raises(SystemExit, match="without options.json"):
        translation_data.check_run_dir({}, args)


def test_both_sides_of_a_split_have_the_same_name(tmp_path):
    for name in ("train.en.gz", "train.de", "val.en", "val.de"):
        (tmp_path / name).touch()
    for name in ("test_2016.en", "test_2017.en", "test_2017.de", "test_2017.de.gz", "test_2018.de"):
        (tmp_path / name).touch()
    args = SimpleNamespace(data=tmp_path, source="en", target="de")
    files = {split: path.name for split, path in translation_data.find_files(args).items()}
    assert (files["train", "source"], files["train", "target"]) == ("train.en.gz", "train.de")
    assert (files["test", "source"], files["test", "target"]) == ("test_2017.en", "test_2017.de")
    for name in ("test.en.gz", "test.de.gz"):
        (tmp_path / name).touch()
    assert translation_data.find_files(args)["test", "source"].name == "test.en.gz"
    (tmp_path / "val.en").unlink()
    with pytest.raises(SystemExit, match="No val.en and val.de"):
        translation_data.find_files(args)


def test_the_name_of_a_side_may_be_in_that_of_the_files(tmp_path):
    for split in ("train", "val", "test.de-en"):
        for suffix in ("de", "en"):
            (tmp_path / f"{split}.{suffix}").touch()
    args = SimpleNamespace(data=tmp_path, source="de", target="en")
    files = {split: path.name for split, path in translation_data.find_files(args).items()}
    assert files["test", "source"] == "test.de-en.de" and files["test", "target"] == "test.de-en.en"


def test_a_test_set_with_a_line_missing_is_refused_before_anything_is_trained(tmp_path):
    files = {("test", "source"): tmp_path / "test.en", ("test", "target"): tmp_path / "test.de"}
    files["test", "source"].write_text("one\ntwo\n")
    files["test", "target"].write_text("eins\n")
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(SystemExit, match="test.en': 2, .*test.de': 1"):
        translation_data.copy_test_set(files, run)
    assert not list(run.iterdir())


def test_run_directory_of_the_same_training_is_not_written_again(tmp_path):
    args = SimpleNamespace(run_dir=tmp_path, dropout=0.1, scheduled_sampling=0.0)
    translation_data.check_run_dir({}, args)
    assert [path.name for path in tmp_path.iterdir()] == ["options.json"]
    written = (tmp_path / "options.json").stat()
    translation_data.check_run_dir({}, args)  # as it is, it need not be written again
    assert (tmp_path / "options.json").stat().st_ino == written.st_ino
