"""What the example refuses; what it makes is the subject of `make demo`."""

import os

import pytest
import train_translation

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
