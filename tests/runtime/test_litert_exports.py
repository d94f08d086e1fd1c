"""The runtime gives the same results for the ONNX file and the LiteRT file of a model."""

import itertools

import keras
import numpy as np
import pytest
from keras_attn_runtime import Translator

from keras_attn import (
    BeamDecoder,
    GenerationModel,
    PatchEmbedding,
    SamplingDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn.export import export_litert, export_onnx
from tests.contracts import randomize
from tests.export.test_other_inputs import IMAGES, make_search

pytest.importorskip("ai_edge_litert", reason="needs keras-attn-runtime[litert]")

GENERATOR = np.random.default_rng(5)
SOURCES = [
    GENERATOR.integers(3, 40, length).tolist() for length in GENERATOR.integers(1, 30, size=50)
]
BEAM = {"beam_width": 3, "num_hypotheses": 3, "max_length": 12}


def recurrent_translator():
    encoder, decoder = rnn_seq2seq(40, 41, embedding_dim=8, units=8, seed=1)
    return GenerationModel(encoder, BeamDecoder(decoder, return_alignments=True, **BEAM))


def transformer_translator(search_class=BeamDecoder, **options):
    encoder, decoder = transformer_seq2seq(
        40, 41, num_layers=2, num_heads=2, embedding_dim=16, intermediate_dim=32, seed=1
    )
    return GenerationModel(encoder, search_class(decoder, **(options or BEAM)))


@pytest.fixture
def open_both(tmp_path):
    """Exports a model in both formats and returns the two `Translator`s, LiteRT first."""

    def open_both(model, batch_size=1, **options):
        randomize(model, scale=0.7, seed=3)
        export_litert(model, tmp_path / "m.tflite", batch_size=batch_size, **options)
        export_onnx(model, tmp_path / "m.onnx", **options)
        return [Translator(tmp_path / name, num_threads=1) for name in ("m.tflite", "m.onnx")]

    return open_both


def assert_equal(results, expected):
    """Hypotheses of equal score can change places."""
    assert len(results) == len(expected) > 0
    num_equal = 0
    for result, other in zip(results, expected, strict=True):
        pairs = list(zip(result.hypotheses, other.hypotheses, strict=True))
        for one, two in pairs:
            assert one.score == pytest.approx(two.score, abs=1e-3)
        num_equal += all(one.token_ids == two.token_ids for one, two in pairs)
        for one, two in pairs:
            if one.token_ids == two.token_ids and one.alignments is not None:
                np.testing.assert_allclose(one.alignments, two.alignments, atol=1e-4)
            if one.token_ids == two.token_ids and one.token_log_probs is not None:
                np.testing.assert_allclose(one.token_log_probs, two.token_log_probs, atol=1e-3)
    assert num_equal >= 0.98 * len(results)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 4])
def test_litert_translations_equal_those_of_onnx(open_both, batch_size):
    both = open_both(recurrent_translator(), batch_size)
    for options in ({"num_hypotheses": 3}, {"max_length": 4, "length_penalty": 0.0}):
        assert_equal(*(each.translate_ids(SOURCES, **options) for each in both))
    assert both[0].translate_ids(SOURCES)[0].alignments is not None


@pytest.mark.slow
def test_litert_prefixes_and_token_scores_equal_those_of_onnx(open_both):
    model = transformer_translator(return_token_log_probs=True, **BEAM)
    both = open_both(model, batch_size=3, accept_target_prefix=True)
    prefixes = [ids[: length % 4] for length, ids in enumerate(SOURCES)]
    assert_equal(*(each.translate_ids(SOURCES, prefixes) for each in both))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3])
def test_litert_samples_equal_those_of_onnx(open_both, batch_size):
    model = transformer_translator(SamplingDecoder, num_hypotheses=2, max_length=8, top_k=9)
    both = open_both(model, batch_size)
    results = [each.translate_ids(SOURCES, seed=7, num_hypotheses=2) for each in both]
    assert_equal(*results)
    other = both[0].translate_ids(SOURCES, seed=8)
    assert any(one.token_ids != two.token_ids for one, two in zip(results[0], other, strict=True))


@pytest.mark.slow
def test_litert_captions_equal_those_of_onnx(open_both):
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), PatchEmbedding(4, 8), num_layers=1)
    model = GenerationModel(encoder, make_search(), inputs=keras.Input((8, 8, 3), name="image"))
    both = open_both(model)
    assert_equal(*(each.generate({"image": IMAGES}, num_hypotheses=2) for each in both))
    rows = [{"image": image} for image in itertools.chain(IMAGES, IMAGES)]
    assert_equal(*(list(each.generate_iterable(rows)) for each in both))
