"""LoRA of converted models: merged kernels and exported files compute the same as the updates."""

import numpy as np
import pytest

from keras_attn.convert import from_transformers
from keras_attn.training import enable_lora, merge_lora
from tests.backend import requires_tensorflow
from tests.slow_cases import all_slow_but

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from tests.convert import (  # noqa: E402
    test_encoders,
    test_fairseq_models,
    test_language_models,
    test_t5_models,
)
from tests.convert.against_transformers import (  # noqa: E402
    randomize,
    save,
    sources_for,
    without_padding,
)
from tests.convert.lora_options import LORA  # noqa: E402

SIZE = 60
IDS = np.random.default_rng(0).integers(3, SIZE - 1, (24, 5)).astype("int32")
MODELS = {
    "bart": lambda: randomize(test_fairseq_models.make("bart"), 1),
    "t5": lambda: randomize(test_t5_models.t5(), 1),
    "t5, gated": lambda: randomize(test_t5_models.t5(feed_forward_proj="gated-gelu"), 1),
    "gpt2": lambda: randomize(test_language_models.make("gpt2"), 1),
    "llama": lambda: randomize(test_language_models.make("llama"), 1),
    "mistral": lambda: randomize(test_language_models.make("mistral"), 1),
    "bert": lambda: test_encoders.make("bert", "ForMaskedLM"),
    "bert, classifier": lambda: test_encoders.make("bert", "ForSequenceClassification"),
}


@pytest.fixture
def adapted(tmp_path, request):
    """Returns a converted model with random updates, and the original."""
    original = MODELS[request.param]()
    generation = {"num_beams": 2, "max_new_tokens": 8, "do_sample": False}
    save(original, tmp_path, **(generation if original.can_generate() else {}))
    model = from_transformers(tmp_path).model
    before = logits_of(model, original)
    variables = enable_lora(model, **LORA)
    for seed, each in enumerate(variables):
        each.assign(np.random.default_rng(seed).normal(0, 0.3, each.shape))
    assert len(variables) == len(model.trainable_variables)
    assert np.abs(logits_of(model, original) - before).max() > 0.1
    return model, original


def logits_of(model, original):
    if not hasattr(model, "search"):
        return np.array(model({"token_ids": IDS, "token_type_ids": IDS % 2}))
    if model.encoder is None:
        return np.array(model.decoder(IDS))
    return np.array(model.decoder(IDS, **model.encoder(sources_for(original, len(IDS)))))


@pytest.mark.parametrize("adapted", MODELS, indirect=True)
def test_merged_kernels_compute_the_same_logits(adapted):
    model, original = adapted
    expected = logits_of(model, original)
    merge_lora(model)
    assert not any("lora" in each.name for each in model.weights)
    found = logits_of(model, original)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


@requires_tensorflow("an export traces with TensorFlow")
@pytest.mark.parametrize("adapted", all_slow_but("gpt2", cases=MODELS), indirect=True)
def test_exported_files_write_the_ids_of_the_updates(adapted, tmp_path):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from keras_attn.export import export_functional_onnx, export_onnx
    from tests.export.small_translator import session

    model, original = adapted
    path = tmp_path / "model.onnx"
    if not hasattr(model, "search"):
        inputs = {"token_ids": IDS, "token_type_ids": IDS % 2}
        export_functional_onnx(model, path, inputs, tolerance=1e-4)
        (found,) = session(path).run(None, inputs)
        expected = logits_of(model, original)
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max()))
        np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))
    else:
        sources = IDS if model.encoder is None else sources_for(original)
        export_onnx(model, path)
        limits = {
            "max_length": np.array(model.search.max_length, "int32"),
            "length_penalty": np.array(model.search.length_penalty, "float32"),
        }
        (found,) = session(path).run(["token_ids"], {"source_ids": sources, **limits})
        expected = np.array(model(sources)["token_ids"])
        assert len(np.unique(expected[:, 0], axis=0)) > 2
        for ours, theirs in zip(found[:, 0].tolist(), expected[:, 0].tolist(), strict=True):
            assert without_padding(ours, original) == without_padding(theirs, original)
    names = [each.name for each in onnx.load(path).graph.initializer]
    assert not any("lora" in name for name in names)
