"""A language model of KerasHub as a decoder. Skipped without keras-hub."""

import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GenerationModel, GreedyDecoder
from keras_attn.testing import check_decoder

keras_hub = pytest.importorskip("keras_hub")

from keras_hub_decoder import SMALL, HubDecoder  # noqa: E402

PROMPTS = np.random.default_rng(0).integers(3, 60, (4, 5)).astype("int32")
LENGTH = 8


def qwen3():
    """Its normalizations of queries and keys are in no layer of this library."""
    keras.utils.set_random_seed(0)
    model = keras_hub.models.Qwen3CausalLM(keras_hub.models.Qwen3Backbone(**SMALL))
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(np.array(weight) + random.normal(0, 0.3, weight.shape).astype("float32"))
    return model


def test_the_decoder_fulfills_the_contract_for_prompts_of_equal_length():
    tokens = np.concatenate([PROMPTS[:, -1:], PROMPTS[:, ::-1]], axis=1)[:, :4]
    check_decoder(lambda: HubDecoder(qwen3()), {"encoder_outputs": PROMPTS}, tokens, True, True)


def test_greedy_search_finds_the_ids_of_keras_hub():
    model = qwen3()
    model.compile(sampler="greedy", run_eagerly=True, jit_compile=False)
    ids = np.pad(PROMPTS, [(0, 0), (0, LENGTH)])
    mask = np.pad(np.ones_like(PROMPTS), [(0, 0), (0, LENGTH)])
    found = model.generate({"token_ids": ids, "padding_mask": mask}, stop_token_ids=None)
    expected = np.array(found["token_ids"])[:, PROMPTS.shape[1] :]
    options = {"relative_max_length": None, "suppressed_token_ids": [], "end_token_id": 0}
    search = GreedyDecoder(HubDecoder(model), max_length=LENGTH, min_length=LENGTH, **options)
    ours = np.array(GenerationModel(None, search)(PROMPTS)["token_ids"])[:, 0]
    rows = (expected != 0).all(axis=1)  # ours must not write the end token
    assert rows.sum() >= 3
    np.testing.assert_array_equal(ours[rows], expected[rows])


def test_prompts_of_different_lengths_are_refused():
    search = BeamDecoder(HubDecoder(qwen3()), beam_width=2, max_length=3, relative_max_length=None)
    model = GenerationModel(None, search)
    assert len(model.generate(PROMPTS.tolist())) == len(PROMPTS)
    with pytest.raises(Exception, match="indices.*60 is not in"):
        model.generate([[5, 6, 7], [8]])


@pytest.mark.slow
def test_the_search_is_exported(tmp_path):
    from keras_attn.export import export_onnx
    from tests.export.small_translator import session

    search = BeamDecoder(HubDecoder(qwen3()), beam_width=2, max_length=5, relative_max_length=None)
    model = GenerationModel(None, search)
    path = tmp_path / "model.onnx"
    prompts = np.random.default_rng(0).integers(3, 60, (200, 5)).tolist()
    assert export_onnx(model, path, parity_sentences=prompts).best_equal > 0.97
    limits = {"max_length": np.array(5, "int32"), "length_penalty": np.array(1, "float32")}
    (found,) = session(path).run(["token_ids"], {"source_ids": PROMPTS, **limits})
    expected = np.array(model(PROMPTS)["token_ids"])
    assert (found[:, 0] == expected[:, 0]).mean() > 0.9
    padded = np.array([[5, 6, 7], [8, 0, 0]], "int32")
    with pytest.raises(Exception, match="out of.* bounds"):
        session(path).run(["token_ids"], {"source_ids": padded, **limits})
