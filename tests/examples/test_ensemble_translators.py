import json
import sys

import ensemble_translators
import keras
import numpy as np
import pytest

from keras_attn import ensemble_model
from keras_attn.training import RunDirectory
from tests.contracts import assert_close, numpy
from tests.export.small_translator import make_translator


@pytest.fixture
def runs(tmp_path, tokenizers):
    """Two run directories."""
    made = []
    for seed, cell in enumerate(("lstm", "gru"), 1):
        run = tmp_path / cell
        (run / "data").mkdir(parents=True)
        made_run = RunDirectory.create(run, "generation", *tokenizers)
        made_run.save_model(make_translator(cell=cell))
        for name in ("test.source", "test.target"):
            (run / "data" / name).write_text(name)
        history = {"minutes": 10 * seed, "cpu_minutes": 30, "arguments": {"seed": seed}}
        (run / "history.json").write_text(json.dumps(history))
        made.append(run)
    return made


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["ensemble_translators.py", *map(str, arguments)])
    ensemble_translators.main()


@pytest.mark.slow
def test_what_is_made_is_a_run(runs, tmp_path, monkeypatch):
    directory = tmp_path / "ensemble"
    run(monkeypatch, *runs, "--run-dir", directory)
    assert {path.name for path in directory.iterdir()} == {
        *("run.json", "model.keras", "source.spm", "target.spm", "data"),
        "history.json",
    }
    each = [keras.models.load_model(run / "model.keras") for run in runs]
    ids = np.array([[5, 6, 7, 2]], "int32")
    loaded = keras.models.load_model(directory / "model.keras")
    assert_close(numpy(loaded(ids)), numpy(ensemble_model(each)(ids)))
    history = json.loads((directory / "history.json").read_text())
    assert history["minutes"] == 30 and history["cpu_minutes"] == 60
    assert history["arguments"]["beam_width"] == 3 and history["arguments"]["seed"] == [1, 2]


@pytest.mark.slow
def test_runs_without_a_test_set_or_arguments(runs, tmp_path, monkeypatch):
    (runs[0] / "data" / "test.source").unlink()
    history = {"minutes": 10, "cpu_minutes": 30}  # of examples/train_translation.py
    (runs[0] / "history.json").write_text(json.dumps(history))
    run(monkeypatch, *runs, "--run-dir", tmp_path / "ensemble")
    history = json.loads((tmp_path / "ensemble" / "history.json").read_text())
    assert history["minutes"] == 30 and history["member_minutes"] == [10, 20]
    assert history["arguments"]["seed"] == [None, 2]
    assert not (tmp_path / "ensemble" / "data" / "test.source").exists()


def swap_tokenizers(run):
    target = RunDirectory(run).target_tokenizer
    RunDirectory.create(run, "generation", target, target)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (swap_tokenizers, "whose source_tokenizers differ"),
        (lambda run: (run / "source.spm").unlink(), "source.spm is missing"),
    ],
)
def test_runs_that_do_not_fit_are_refused(runs, tmp_path, monkeypatch, spoil, message):
    spoil(runs[1])
    with pytest.raises(SystemExit, match=message):
        run(monkeypatch, *runs, "--run-dir", tmp_path / "ensemble")
    assert not (tmp_path / "ensemble").exists()


@pytest.mark.slow
def test_no_run_is_overwritten(runs, tmp_path, monkeypatch):
    before = (runs[1] / "model.keras").read_bytes()
    with pytest.raises(SystemExit, match="Expected --run-dir outside of RUN"):
        run(monkeypatch, *runs, "--run-dir", runs[1])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "settings.toml").write_text("")
    with pytest.raises(SystemExit, match="other contains a training. Choose a different --run-dir"):
        run(monkeypatch, *runs, "--run-dir", tmp_path / "other")
    assert (runs[1] / "model.keras").read_bytes() == before
