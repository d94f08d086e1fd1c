"""A Marian folder with tokenizers, from text to text: Keras, the command, ONNX and the runtime."""

import json
import shutil
import warnings

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("onnxruntime")

from tests.convert.against_transformers import randomize, save  # noqa: E402
from tests.convert.small_checkpoints import ENGLISH, write_marian_tokenizers  # noqa: E402
from tests.convert.test_marian import marian  # noqa: E402

SOURCES = [*ENGLISH, "the dog sleeps", "a house of the cat", "two dogs eat", ">>fra<< the cat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of an opus-mt model whose outputs have several lengths."""
    path = tmp_path_factory.mktemp("opus") / "opus-mt-en-de"
    path.mkdir()
    size = write_marian_tokenizers(path)
    pad = size - 1
    model = marian(vocab_size=size, pad_token_id=pad, decoder_start_token_id=pad)
    settings = {"num_beams": 4, "max_length": 16, "bad_words_ids": [[pad]]}
    model.generation_config.update(**settings)
    for seed in range(40):
        texts = their_texts(randomize(model, seed), path)
        if len(set(texts)) == len(texts) and len({len(text) for text in texts}) > 3:
            break
    save(model, path)
    return path


def their_tokenizer(folder):
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    paths = {name: str(folder / file) for name, file in files.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it does not use here
        return transformers.MarianTokenizer(**paths, source_lang="en", target_lang="de")


def their_texts(model, folder):
    tokenizer = their_tokenizer(folder)
    inputs = tokenizer(SOURCES, return_tensors="pt", padding=True)
    with torch.no_grad():
        ids = model.generate(**inputs)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


@pytest.fixture(scope="module")
def expected(folder):
    return their_texts(transformers.MarianMTModel.from_pretrained(folder).eval(), folder)


def test_tokenizers_have_the_ids_of_transformers(folder):
    converted = from_transformers(folder)
    tokenizer = their_tokenizer(folder)
    ours = [[*ids, 0] for ids in converted.source_tokenizer.encode(SOURCES)]
    assert ours == tokenizer(SOURCES)["input_ids"]
    assert (
        converted.model_card.source_language == "en"
        and converted.model_card.target_language == "de"
    )
    assert ">>fra<<" in converted.tokenizers


@pytest.mark.slow
def test_texts_equal_those_of_transformers(folder, expected, tmp_path):
    """In Keras, from a run directory, and from an ONNX file with the runtime."""
    run = tmp_path / "RUN"
    assert main(["convert", str(folder), str(run)]) == 0
    loaded = RunDirectory(run)
    model = loaded.load_model("generation")
    tokenizers = loaded.source_tokenizer, loaded.target_tokenizer
    assert model.generate(SOURCES, *tokenizers) == expected
    path = tmp_path / "model.onnx"
    assert main(["export", "onnx", str(run), str(path)]) == 0

    from keras_attn_runtime import Translator

    found = Translator(path, num_threads=1).translate(SOURCES)
    assert [each.text for each in found] == expected


def test_tokenizers_that_do_not_fit_are_refused(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    vocabulary = json.loads((other / "vocab.json").read_text())
    (other / "vocab.json").write_text(json.dumps({**vocabulary, "more": len(vocabulary)}))
    with pytest.raises(ConversionError, match=f"at most {len(vocabulary)} ids"):
        from_transformers(other)
    swapped = {**vocabulary, "</s>": 1, "<unk>": 0}
    (other / "vocab.json").write_text(json.dumps(swapped))
    with pytest.raises(ConversionError, match="the id 0 of the model for </s>"):
        from_transformers(other)
    (other / "vocab.json").unlink()
    converted = from_transformers(other)
    assert converted.source_tokenizer is None and "none" in converted.tokenizers
    assert np.array(converted.model(np.array([[3, 4, 0]]))["lengths"]).shape == (1, 1)
