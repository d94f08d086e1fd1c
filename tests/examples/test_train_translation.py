"""What the example refuses; what it makes is the subject of `make demo`."""

import contextlib
import os
from types import SimpleNamespace

import pytest
import train_translation
import translation_data

from keras_attn._files.path_lock import PathLock


@pytest.mark.parametrize(
    "before, changed",
    [
        ('{"vocabulary_size": 8000, "tokenizer": "char"}', "{'vocabulary_size': 8000}"),
        ('{"attention": "sparsemax", "seed": 1}', "{'attention': 'sparsemax'}"),  # as many weights
    ],
)
def test_a_run_directory_belongs_to_one_text_and_model(tmp_path, monkeypatch, before, changed):
    (tmp_path / "options.json").write_text(before)
    (tmp_path / "state").mkdir()
    monkeypatch.setattr("sys.argv", ["train_translation.py", "--run-dir", str(tmp_path)])
    monkeypatch.setattr(train_translation, "write_dates", lambda *_: pytest.fail("went on"))
    with pytest.raises(SystemExit, match="a different --run-dir") as raised:
        train_translation.main()
    assert changed in str(raised.value) and not (tmp_path / "model.keras").exists()


def test_a_run_directory_belongs_to_one_text_of_the_same_size(tmp_path):
    files = {("train", "source"): tmp_path / "text", ("valid", "source"): tmp_path / "other"}
    files["valid", "source"].write_text("one")
    args = SimpleNamespace(run_dir=tmp_path / "run")
    (args.run_dir / "state").mkdir(parents=True)
    for text, is_same in (("one", True), ("one", True), ("two", False)):
        files["train", "source"].write_text(text)
        if not (args.run_dir / "options.json").exists():
            (args.run_dir / "options.json").write_text("{}")
            (args.run_dir / "state").rmdir()
        named = r"with \{'sha256': \{'train.source': '\w{64}'\}\}"  # and no other file
        context = contextlib.nullcontext() if is_same else pytest.raises(SystemExit, match=named)
        with context:
            translation_data.check_run_dir(files, args)
        (args.run_dir / "state").mkdir(exist_ok=True)


def test_run_directory_of_a_running_training_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train_translation.py", "--run-dir", str(tmp_path)])
    with PathLock(tmp_path, "run"), pytest.raises(SystemExit, match=f"process {os.getpid()} on"):
        train_translation.main()
    assert not (tmp_path / "run.json").exists()


def test_full_disk_is_one_line(tmp_path, monkeypatch):
    def fail(args):
        raise OSError("No space left\non device")

    monkeypatch.setattr("sys.argv", ["train_translation.py", "--run-dir", str(tmp_path)])
    monkeypatch.setattr(train_translation, "train", fail)
    with pytest.raises(SystemExit, match="^Stopped: No space left on device$"):
        train_translation.main()


def test_the_clock_goes_on_from_what_was_stored():
    clock = train_translation.Clock()
    clock.set_state([1000.0, 500.0])
    seconds, of_processors = clock.get_state()
    assert 1000 <= seconds < 1100 and 500 <= of_processors < 600
