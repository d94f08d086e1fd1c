import itertools
import json
import os

import keras
import numpy as np
import pytest

from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import BestCheckpoint, ImageFormat, ModelCard, RunDirectory

pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text("abc def\n" * 5)
    return SentencePieceTokenizer.train(path, 20, "char", normalizer="identity")


@pytest.fixture
def run(tokenizer, tmp_path):
    """Returns a run directory with a different padding id of the source."""
    source = SentencePieceTokenizer(tokenizer.model, pad_token_id=3)
    card = ModelCard("en", "de", license="MIT")
    return RunDirectory.create(
        *(tmp_path / "a" / "run", "generation", source, tokenizer),
        model_card=card,
        image_format=ImageFormat("gray", 2),
    )


def test_run_directory_round_trip(run, tokenizer):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    run.save_model(model)
    loaded = RunDirectory(run.path)
    assert (loaded.kind, loaded.model_path) == ("generation", run.path / "model.keras")
    assert loaded.source_tokenizer.pad_token_id == 3
    assert loaded.target_tokenizer.pad_token_id == 0
    assert loaded.target_tokenizer.model == tokenizer.model
    assert loaded.model_card == ModelCard("en", "de", license="MIT") and loaded.files == {}
    assert loaded.image_format == ImageFormat("gray", 2)
    x = np.ones((1, 3), "float32")
    found, expected = (np.array(each(x)) for each in (loaded.load_model("generation"), model))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    names = {"run.json", "model.keras", "source.spm", "target.spm"}
    assert {path.name for path in run.path.iterdir()} == names


def test_a_class_of_a_module_that_is_not_imported_is_named(run):
    class Doubled(keras.layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    Doubled.__module__ = "missing_module"
    inputs = keras.Input((3,))
    run.save_model(keras.Model(inputs, Doubled()(inputs)))
    with pytest.raises(ValueError, match="Received: Doubled. Import its module") as error:
        RunDirectory(run.path).load_model()
    assert len(str(error.value)) < 600
    with keras.saving.custom_object_scope({"Doubled": Doubled}):
        RunDirectory(run.path).load_model()


def test_run_directory_of_another_kind(tmp_path):
    files = {"vocabulary": "vocabulary.txt"}
    run = RunDirectory.create(tmp_path, "classification", files=files, labels=["bad", "good"])
    assert run.source_tokenizer is run.target_tokenizer is None and run.labels == ["bad", "good"]
    assert run.files == {"vocabulary": tmp_path / "vocabulary.txt"}
    with pytest.raises(ValueError, match="kind 'generation'. Received: kind='classification'"):
        run.load_model("generation")
    with pytest.raises(FileNotFoundError, match=r"model.keras is missing. Wait for the end"):
        run.load_model()


def test_run_directory_readers_ignore_unknown_keys(run):
    path = run.path / "run.json"
    description = json.loads(path.read_text())
    description |= {"news": 1, "card": {"license": "MIT", "news": 2}}
    path.write_text(json.dumps(description))
    assert RunDirectory(run.path).model_card == ModelCard(license="MIT")


@pytest.mark.parametrize("name", ["run.json", "source.spm"])
def test_run_directory_names_a_missing_file(run, name):
    (run.path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"Received: .*, in which {name} is missing"):
        RunDirectory(run.path)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"kind": 3, "model": "a"}', '{"kind": "a", "model": "b", "source": 1}',
     '{"kind": "a", "model": "b", "source": {"tokenizer": "words"}}', "[" * 100_000,
     '{"kind": "a", "model": "b", "source": {"tokenizer": "sentencepiece", "file": "source.spm"}}'],
)  # fmt: skip
def test_run_directory_with_a_damaged_description_is_refused(run, content):
    (run.path / "run.json").write_text(content)
    with pytest.raises(ValueError, match="run.json"):
        RunDirectory(run.path)


def test_other_paths_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        RunDirectory(tmp_path / "missing")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="a checkpoint of transformers. Convert it first"):
        RunDirectory(tmp_path)


def small_model(units=2):
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(units)(inputs))


@pytest.fixture
def other_tokenizer(tmp_path):
    (tmp_path / "text").write_text("stu vwx\n" * 5)
    return SentencePieceTokenizer.train(tmp_path / "text", 20, "char", normalizer="identity")


class Killed(BaseException):
    """Stands for the end of the process."""


def kill_after(patch, most_calls):
    """Makes the calls that change a directory raise `Killed`, after the first `most_calls`."""
    calls = itertools.count(1)

    def counted(original):
        def call(*args, **kwargs):
            if next(calls) > most_calls:
                raise Killed
            return original(*args, **kwargs)

        return call

    for name in ("replace", "rename", "unlink"):
        patch.setattr(os, name, counted(getattr(os, name)))


def states_after_kills(path, write, monkeypatch):
    """Yields after `write` was killed before each of its changes of a directory, and at last."""
    content = {each.name: each.read_bytes() for each in path.iterdir() if each.is_file()}
    for most_calls in itertools.count():
        with monkeypatch.context() as patch:
            kill_after(patch, most_calls)
            try:
                write()
            except Killed:
                is_complete = False
            else:
                is_complete = True
        yield
        if is_complete:
            return
        for each in path.iterdir():
            if each.is_file():
                each.unlink()
        for name, each in content.items():
            (path / name).write_bytes(each)


def test_kill_of_create_leaves_the_old_run_or_a_refused_one(
    tokenizer, other_tokenizer, tmp_path, monkeypatch
):
    assert tokenizer.vocabulary_size == other_tokenizer.vocabulary_size
    path = tmp_path / "run"
    RunDirectory.create(path, "generation", tokenizer).save_model(small_model())
    seen = set()

    def create():
        RunDirectory.create(path, "generation", other_tokenizer)

    for _ in states_after_kills(path, create, monkeypatch):
        try:
            run = RunDirectory(path)
            run.load_model()
        except (FileNotFoundError, ValueError) as error:
            assert "Expected" in str(error) and str(path) in str(error)
            seen.add("refused")
        else:
            assert run.source_tokenizer.model == tokenizer.model
            seen.add("old")
    assert seen == {"old", "refused"}
    assert not (path / "model.keras").exists()


def test_kill_of_save_model_leaves_the_old_or_the_new_model(tokenizer, tmp_path, monkeypatch):
    run = RunDirectory.create(tmp_path / "run", "generation", tokenizer)
    run.save_model(small_model(2))
    seen = set()
    new = small_model(5)
    for _ in states_after_kills(run.path, lambda: run.save_model(new), monkeypatch):
        seen.add(RunDirectory(run.path).load_model().output_shape[-1])
    assert seen == {2, 5}


def test_training_that_resumes_keeps_its_model(tokenizer, tmp_path):
    RunDirectory.create(tmp_path, "generation", tokenizer).save_model(small_model())
    card = ModelCard("en", "de")
    run = RunDirectory.create(tmp_path, "generation", tokenizer, model_card=card)
    assert run.load_model().output_shape == (None, 2) and run.model_card == card


@pytest.mark.parametrize("difference", ["kind", "files", "image_format", "tokenizer"])
def test_create_removes_the_model_of_another_training(tokenizer, tmp_path, difference):
    RunDirectory.create(tmp_path, "generation", tokenizer).save_model(small_model())
    arguments = {"kind": "generation", "source_tokenizer": tokenizer, "files": {}}
    if difference == "tokenizer":
        tokenizer = SentencePieceTokenizer(tokenizer.model, pad_token_id=3)
    new = {
        "kind": "series",
        "files": {"labels": "labels.txt"},
        "image_format": ImageFormat("gray", 2),
        "tokenizer": tokenizer,
    }
    key = "source_tokenizer" if difference == "tokenizer" else difference
    RunDirectory.create(tmp_path, **{**arguments, key: new[difference]})
    assert not (tmp_path / "model.keras").exists()


def test_parts_of_another_training_are_refused_by_name(tokenizer, other_tokenizer, tmp_path):
    files = {"labels": "labels.txt"}
    runs = []
    for number, each in enumerate((tokenizer, other_tokenizer)):
        run = RunDirectory.create(tmp_path / str(number), "generation", each, files=files)
        (run.path / "labels.txt").write_text(f"label {number}")
        run.save_model(small_model())
        runs.append(run.path)
    for name in ("model.keras", "source.spm", "labels.txt"):
        own = (runs[0] / name).read_bytes()
        (runs[0] / name).write_bytes((runs[1] / name).read_bytes())
        with pytest.raises(ValueError, match=rf"files of one training\. Received: .*{name}"):
            RunDirectory(runs[0]).load_model()
        (runs[0] / name).write_bytes(own)
    RunDirectory(runs[0]).load_model()


def test_model_that_was_saved_beside_run_directory_is_refused(tokenizer, tmp_path):
    run = RunDirectory.create(tmp_path, "generation", tokenizer)
    small_model().save(run.model_path)
    with pytest.raises(ValueError, match="not listed in `checksums` of run.json.*save_model"):
        run.load_model()
    run.save_model(keras.saving.load_model(run.model_path))
    run.load_model()


def test_run_directory_of_an_earlier_version_has_no_checksums(tokenizer, tmp_path):
    run = RunDirectory.create(tmp_path, "generation", tokenizer)
    description = json.loads((tmp_path / "run.json").read_text())
    del description["checksums"]
    (tmp_path / "run.json").write_text(json.dumps(description))
    small_model().save(run.model_path)
    run = RunDirectory(tmp_path)
    run.load_model()
    run.save_model(small_model(4))
    assert "checksums" not in json.loads((tmp_path / "run.json").read_text())
    run = RunDirectory.create(tmp_path, "generation", tokenizer)  # the training resumes
    assert run.load_model().output_shape == (None, 4)


def test_best_checkpoint_saves_the_model_of_a_run(tokenizer, tmp_path):
    run = RunDirectory.create(tmp_path, "generation", tokenizer)
    model = small_model()
    callback = BestCheckpoint(run)
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate([5.0, 3.0]):
        callback.on_epoch_end(epoch, {"val_perplexity": value})
    callback.on_train_end()
    assert RunDirectory(tmp_path).load_model().output_shape == (None, 2)
