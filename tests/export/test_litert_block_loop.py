"""The loop of LiteRT files, compared with the loop of all other formats, run by TensorFlow."""

import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    GreedyDecoder,
    SamplingDecoder,
    TransformerDecoder,
    ensemble_model,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn._backend.litert_tracing import traced_for_litert
from keras_attn._decoding_state.growing_buffer import BLOCK_STEPS
from keras_attn._models.generation_model import GenerationModel
from tests.contracts import assert_close, numpy, randomize
from tests.export.test_language_model import generator
from tests.slow_cases import all_slow_but

SIZES = (20, 21)
STEPS = 2 * BLOCK_STEPS + 3
SOURCES = np.random.default_rng(0).integers(3, 20, (3, 5)).astype("int32")
LIMITS = {"max_length": STEPS, "relative_max_length": None}


def transformer(**options):
    return transformer_seq2seq(
        *SIZES, num_layers=2, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=1, **options
    )


PARTS = {
    "sinusoidal positions": transformer,
    "relative positions": lambda: transformer(positions="relative"),
    "rotary positions": lambda: transformer(positions="rotary"),
    "recurrent": lambda: rnn_seq2seq(*SIZES, embedding_dim=8, units=8, seed=1),
}

SEARCHES = {
    "greedy": (GreedyDecoder, {}),
    "beam": (BeamDecoder, {"beam_width": 3, "num_hypotheses": 2, "coverage_penalty": 0.1}),
    "sampling": (SamplingDecoder, {"num_hypotheses": 2, "seed": 1}),
}


def make_model(parts, search="beam", **options):
    search_class, arguments = SEARCHES[search]
    encoder, decoder = parts()
    model = GenerationModel(encoder, search_class(decoder, **arguments, **LIMITS, **options))
    randomize(model, scale=0.7, seed=3)
    return model


def encode(model, sources):
    """Returns the arguments of the search."""
    if model.encoder is not None:
        return model.encoder(sources)
    return {"encoder_outputs": sources, "encoder_mask": sources != 0}  # prompts


def assert_equal_in_blocks(model, sources=SOURCES, **arguments):
    """Asserts that the search finds the same hypotheses in both loops; returns their lengths."""
    encoded = encode(model, sources)
    expected = numpy(model.search(**encoded, **arguments))
    with traced_for_litert():
        found = numpy(model.search(**encoded, **arguments))
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert_close(found[name], value)
    return expected["lengths"]


@pytest.mark.parametrize("parts", all_slow_but("rotary positions", "recurrent", cases=PARTS))
def test_hypotheses_of_several_blocks(parts):
    lengths = assert_equal_in_blocks(make_model(PARTS[parts], suppressed_token_ids=[2]))
    assert (lengths == STEPS).all()


@pytest.mark.parametrize("search", all_slow_but("beam", "sampling", cases=SEARCHES))
def test_all_outputs_of_each_search(search):
    requested = {"return_alignments": True, "return_token_log_probs": True, "return_top_tokens": 2}
    model = make_model(transformer, search, min_length=2, **requested)
    seeds = {"seeds": np.arange(3, dtype="int32")} if search == "sampling" else {}
    assert_equal_in_blocks(model, **seeds)


@pytest.mark.parametrize(
    "max_length",
    all_slow_but(0, BLOCK_STEPS + 1, cases=[0, 1, BLOCK_STEPS, BLOCK_STEPS + 1]),
)
def test_limits_at_the_end_of_a_block(max_length):
    model = make_model(transformer, suppressed_token_ids=[2])
    lengths = assert_equal_in_blocks(model, max_length=max_length)
    assert (lengths == max_length).all()


@pytest.mark.parametrize("cache_block_size", all_slow_but(4, cases=[None, 4]))
def test_language_models_with_prompts(cache_block_size):
    model = generator(cache_block_size=cache_block_size)
    model.search.max_length = STEPS
    model.search.suppressed_token_ids = [model.search.end_token_id]
    prompts = np.array([[5, 6, 7], [4, 0, 0]], "int32")
    lengths = assert_equal_in_blocks(model, prompts)
    assert (lengths == STEPS).all()


@pytest.mark.slow
def test_ensembles():
    members = [make_model(PARTS[name]) for name in ("rotary positions", "recurrent")]
    assert_equal_in_blocks(ensemble_model(members))


@pytest.mark.parametrize("growing_cache", all_slow_but(False, cases=[True, False]))
def test_decoders_that_cannot_widen(growing_cache):
    def parts():
        encoder, decoder = transformer()
        config = {**decoder.get_config(), "growing_cache": growing_cache}
        return encoder, TransformerDecoder.from_config(config)

    model = make_model(parts, suppressed_token_ids=[2])
    assert not model.search.decoder.can_widen
    assert_equal_in_blocks(model)
