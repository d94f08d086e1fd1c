"""Exported files of converted models write the ids of transformers' `generate`."""

import numpy as np
import pytest

from keras_attn.convert import from_transformers

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")

from tests.convert.against_transformers import (  # noqa: E402
    check_search,
    randomize,
    save,
    sources_for,
    their_ids,
    without_padding,
)
from tests.convert.test_fairseq_models import make as fairseq_model  # noqa: E402
from tests.convert.test_language_models import SIZE  # noqa: E402
from tests.convert.test_language_models import make as language_model  # noqa: E402
from tests.convert.test_t5_models import t5  # noqa: E402
from tests.export.small_translator import session  # noqa: E402


def ids_of_file(converted, path, sources):
    from keras_attn.export import export_onnx

    search = converted.model.search
    report = export_onnx(converted.model, path)
    assert report.best_equal > 0.97
    limits = {
        "max_length": np.array(search.max_length, "int32"),
        "length_penalty": np.array(search.length_penalty, "float32"),
    }
    file = session(path)
    inputs = {"source_ids": sources, **limits}
    names = {each.name for each in file.get_inputs()}
    inputs = {name: value for name, value in inputs.items() if name in names}
    return file.run(["token_ids"], inputs)[0][:, 0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (lambda: t5(num_layers=2), {"num_beams": 3, "max_new_tokens": 10}),
        (lambda: fairseq_model("mbart"), {"forced_bos_token_id": 50, "max_length": 10}),
        (lambda: fairseq_model("bart"), {"num_beams": 3, "max_length": 10}),
    ],
    ids=["t5", "mbart, greedy", "bart"],
)
def test_translators_write_the_ids_of_generate(tmp_path, make, settings):
    model = make()
    pad = [[model.config.pad_token_id]]
    converted = check_search(model, tmp_path, lengths=1, bad_words_ids=pad, **settings)
    sources = sources_for(model)
    found = ids_of_file(converted, tmp_path / "model.onnx", sources)
    assert [without_padding(row, model) for row in found] == their_ids(model, sources)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma"])
def test_language_models_write_the_ids_of_generate(tmp_path, name):
    model = save(randomize(language_model(name), 1), tmp_path, num_beams=2, max_new_tokens=8)
    prompts = np.random.default_rng(0).integers(3, SIZE, (6, 5)).astype("int32")
    with torch.no_grad():
        ids = model.generate(torch.tensor(prompts).long(), attention_mask=torch.ones(6, 5))
    found = ids_of_file(from_transformers(tmp_path), tmp_path / "model.onnx", prompts)
    expected = [without_padding(row, model) for row in ids[:, 5:].tolist()]
    assert [without_padding(row, model) for row in found] == expected
