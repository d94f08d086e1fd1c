"""LiteRT files of decoders, searches and rules, compared with Keras on 200 sources each."""

import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    GenerationModel,
    GreedyDecoder,
    PatchEmbedding,
    SamplingDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
    ensemble_model,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn._decoding_state.growing_buffer import BLOCK_STEPS
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export import export_litert
from tests.contracts import randomize
from tests.export.test_attention_mechanisms import MECHANISMS, mechanism_parts
from tests.export.test_language_model import generator
from tests.export.test_other_inputs import make_search

pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")

SIZES = (40, 41)
BEAM = {"beam_width": 3, "num_hypotheses": 3, "max_length": 16}

DECODERS = {
    **{f"transformer, {name} positions": {"positions": name} for name in ("sinusoidal", "learned")},
    **{f"transformer, {name}": {"positions": name} for name in ("rotary", "alibi", "relative")},
    "lstm, bahdanau": {"attention": "bahdanau"},
    "gru, luong": {"attention": "luong", "cell": "gru"},
    "lstm, no attention": {"attention": None},
    **{f"gru, {name}": name for name in MECHANISMS},
}

SEARCHES = {
    "greedy": (GreedyDecoder, {"max_length": 16, "repetition_penalty": 1.3}),
    "exact": (BeamDecoder, {**BEAM, "stop": "exact"}),
    "heuristic": (BeamDecoder, {**BEAM, "stop": "heuristic"}),
    "gnmt penalty, coverage penalty": (
        BeamDecoder,
        {**BEAM, "length_penalty_form": "gnmt", "coverage_penalty": 0.2},
    ),
    "n-grams, repetition": (
        BeamDecoder,
        {**BEAM, "no_repeat_ngram_size": 2, "repetition_penalty": 1.4},
    ),
    "groups": (
        BeamDecoder,
        {**BEAM, "beam_width": 4, "num_groups": 2, "diversity_strength": 0.5},
    ),
    "lengths, suppressed tokens": (
        BeamDecoder,
        {**BEAM, "min_length": 5, "suppressed_token_ids": [0, 1, 7, 8], "force_end_token": True},
    ),
    "forced prefix, token scores": (
        BeamDecoder,
        {**BEAM, "forced_prefix_ids": [9], "score_prefix": False, "return_token_log_probs": True},
    ),
    "most probable tokens": (BeamDecoder, {**BEAM, "return_top_tokens": 3}),
    "sampling": (SamplingDecoder, {"num_hypotheses": 3, "max_length": 8, "top_k": 9}),
    "sampling, nucleus": (
        SamplingDecoder,
        {"num_hypotheses": 2, "max_length": 8, "top_p": 0.8, "temperature": 0.7},
    ),
}


def decoder_parts(name):
    options = DECODERS[name]
    if isinstance(options, str):
        return mechanism_parts(options)
    if name.startswith("transformer"):
        return transformer_seq2seq(
            *SIZES,
            num_layers=2,
            num_heads=2,
            embedding_dim=16,
            intermediate_dim=32,
            seed=1,
            **options,
        )
    return rnn_seq2seq(*SIZES, embedding_dim=8, units=8, seed=1, **options)


def search_model(name, search_class, options):
    encoder, decoder = decoder_parts(name)
    model = GenerationModel(encoder, search_class(decoder, **options))
    # Predicted positions are chaotic with larger weights: if these change by a factor of 1 + 2e-7,
    # scores change by 0.02 in Keras itself.
    randomize(model, scale=0.35 if name == "gru, local" else 0.7, seed=3)
    return model


def assert_equals_keras(model, path, **options):
    """Exports a model, and asserts that all hypotheses of 200 sources are those of Keras."""
    report = export_litert(model, path, accept_target_prefix=True, **options)
    assert report.sentences >= 200
    assert report.all_tied == 1.0
    assert report.each_equal >= 0.995  # hypotheses of equal score can change places
    assert report.largest_difference < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_litert_search_of_each_decoder(tmp_path, name):
    has_attention = name != "lstm, no attention"
    assert_equals_keras(
        search_model(name, BeamDecoder, BEAM), tmp_path / "m.tflite", alignments=has_attention
    )


@pytest.mark.slow
def test_litert_search_with_flash_attention(tmp_path):
    encoder, decoder = transformer_seq2seq(
        *SIZES,
        num_layers=1,
        num_heads=2,
        embedding_dim=16,
        intermediate_dim=32,
        dropout=0.0,
        seed=1,
    )
    attentions = [each for each in flatten_layers([encoder]) if hasattr(each, "flash_attention")]
    for attention in attentions:
        attention.flash_attention = True
    model = GenerationModel(encoder, BeamDecoder(decoder, **BEAM))
    randomize(model, scale=0.7, seed=3)
    assert attentions
    assert_equals_keras(model, tmp_path / "m.tflite")


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["transformer, sinusoidal positions", "lstm, bahdanau"])
@pytest.mark.parametrize("search", SEARCHES)
def test_litert_search_of_each_rule(tmp_path, search, decoder):
    assert_equals_keras(search_model(decoder, *SEARCHES[search]), tmp_path / "m.tflite")


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["transformer, sinusoidal positions", "lstm, bahdanau"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_litert_search_with_phrases(tmp_path, decoder, batch_size):
    options = {"stop_sequences": [[7, 8]], "suppressed_token_ids": [9]}
    model = search_model(decoder, BeamDecoder, {**BEAM, "beam_width": 4, **options})
    options = {"accept_constraints": True, "batch_size": batch_size}
    assert_equals_keras(model, tmp_path / "m.tflite", **options)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["transformer, relative", "lstm, bahdanau"])
def test_litert_search_of_several_blocks(tmp_path, decoder):
    options = {**BEAM, "max_length": 2 * BLOCK_STEPS + 3, "relative_max_length": None}
    model = search_model(decoder, BeamDecoder, {**options, "suppressed_token_ids": [2]})
    assert_equals_keras(model, tmp_path / "m.tflite")


@pytest.mark.slow
def test_litert_search_of_a_language_model(tmp_path):
    assert_equals_keras(generator(), tmp_path / "m.tflite")


@pytest.mark.slow
def test_litert_search_of_an_ensemble(tmp_path):
    models = [
        search_model(name, BeamDecoder, BEAM) for name in ("transformer, rotary", "gru, luong")
    ]
    assert_equals_keras(ensemble_model(models), tmp_path / "m.tflite")


@pytest.mark.slow
def test_litert_search_of_images(tmp_path):
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), PatchEmbedding(4, 8), num_layers=1)
    image = keras.Input((8, 8, 3), name="image")
    model = GenerationModel(encoder, make_search(), inputs=image)
    randomize(model, scale=0.7, seed=3)
    images = np.random.default_rng(0).random((200, 8, 8, 3), "float32")
    report = export_litert(model, tmp_path / "m.tflite", parity_inputs=images)
    assert report.sentences >= 200 and report.all_tied == 1.0 and report.largest_difference < 1e-3


@pytest.mark.slow
def test_litert_search_of_a_larger_batch(tmp_path):
    model = search_model("gru, coverage", BeamDecoder, BEAM)
    assert_equals_keras(model, tmp_path / "m.tflite", batch_size=4)


@pytest.mark.slow
def test_litert_search_in_mixed_precision(tmp_path):
    with_policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = search_model("transformer, rotary", BeamDecoder, BEAM)
    finally:
        keras.config.set_dtype_policy(with_policy)
    assert_equals_keras(model, tmp_path / "m.tflite")
