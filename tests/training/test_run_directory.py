import json

import keras
import numpy as np
import pytest

from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import ImageFormat, ModelCard, RunDirectory

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
        card=card,
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
    assert loaded.card == ModelCard("en", "de", license="MIT") and loaded.files == {}
    assert loaded.image_format == ImageFormat("gray", 2)
    x = np.ones((1, 3), "float32")
    found, expected = (np.array(each(x)) for each in (loaded.load_model("generation"), model))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    names = {"run.json", "model.keras", "source.spm", "target.spm"}
    assert {path.name for path in run.path.iterdir()} == names


def test_run_directory_of_another_kind(tmp_path):
    files = {"vocabulary": "vocabulary.txt"}
    run = RunDirectory.create(tmp_path, "classification", files=files)
    assert run.source_tokenizer is run.target_tokenizer is None
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
    assert RunDirectory(run.path).card == ModelCard(license="MIT")


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
