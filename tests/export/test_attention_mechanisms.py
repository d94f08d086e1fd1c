"""Attention mechanisms in exported files: as a layer, and in a beam search."""

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CosineAttention,
    CoverageAttention,
    GenerationModel,
    LinearScoreAttention,
    LocalAttention,
    LocationAttention,
    LocationSensitiveAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    RNNDecoder,
    RNNEncoder,
    ScaledDotProductAttention,
)
from keras_attn._masks import padding_mask
from keras_attn.export import export_functional_onnx, export_onnx
from tests.export.small_translator import session
from tests.slow_cases import all_slow_but

MECHANISMS = {
    "additive in chunks": lambda: BahdanauAttention(6, chunk_size=2),
    "dot": lambda: LuongAttention("dot"),
    "concat": lambda: LuongAttention("concat", units=6),
    "scaled dot product": lambda: ScaledDotProductAttention(),
    "cosine": lambda: CosineAttention(),
    "linear": lambda: LinearScoreAttention(),
    "location": lambda: LocationAttention(4),
    "sparsemax": lambda: BahdanauAttention(6, probability_fn="sparsemax"),
    "local": lambda: LocalAttention(LuongAttention("dot"), window=2),
    "several heads": lambda: MultiHeadAttention(2, 4),
    "hardmax": lambda: LuongAttention("general", probability_fn="hardmax"),
    "local, monotonic": lambda: LocalAttention(
        LuongAttention("dot"), window=2, alignment="monotonic"
    ),
    "location-sensitive": lambda: LocationSensitiveAttention(6, filters=4, kernel_size=5),
    "coverage": lambda: CoverageAttention(6),
    "monotonic, parallel": lambda: MonotonicAttention(BahdanauAttention(6)),
    "monotonic, recursive": lambda: MonotonicAttention(BahdanauAttention(6), "recursive"),
    "monotonic, hard": lambda: MonotonicAttention(BahdanauAttention(6), "hard"),
}


def mechanism_parts(name, vocabulary_sizes=(45, 46)):
    """Returns the encoder and decoder of a recurrent translator with an attention mechanism."""
    source_size, target_size = vocabulary_sizes
    # Queries and keys have the same size, because some mechanisms need it.
    encoder = RNNEncoder(
        keras.layers.GRUCell(8),
        keras.layers.Embedding(vocabulary_sizes[0], 8),
        bidirectional=False,
        name="encoder",
    )
    cell = AttentionRNNCell(keras.layers.GRUCell(8), MECHANISMS[name](), attention_units=8)
    decoder = RNNDecoder(cell, keras.layers.ReversibleEmbedding(target_size, 8), name="decoder")
    return encoder, decoder


@pytest.mark.parametrize("name", all_slow_but(*list(MECHANISMS)[::3], cases=MECHANISMS))
def test_as_a_layer(name, tmp_path):
    query, value = keras.Input((None, 8), name="query"), keras.Input((None, 8), name="value")
    ids = keras.Input((None,), dtype="int32", name="ids")
    context, weights = MECHANISMS[name]()(
        query, value, attention_mask=padding_mask(ids)[:, None], return_attention_scores=True
    )
    model = keras.Model([query, value, ids], {"context": context, "weights": weights})
    generator = np.random.default_rng(0)

    def inputs(batch, target, source):
        return {
            "query": generator.normal(size=(batch, target, 8)).astype("float32"),
            "value": generator.normal(size=(batch, source, 8)).astype("float32"),
            "ids": generator.integers(0, 3, (batch, source)).astype("int32"),
        }

    path = tmp_path / "attention.onnx"
    assert export_functional_onnx(model, path, inputs(3, 2, 5)).largest_difference < 1e-5
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    for shape in [(1, 1, 1), (5, 3, 9)]:
        fed = inputs(*shape)
        actual, expected = dict(zip(names, opened.run(None, fed), strict=True)), model(fed)
        for output_name, value in expected.items():
            np.testing.assert_allclose(actual[output_name], value, atol=1e-5)


@pytest.mark.parametrize("name", ["several heads", "hardmax"])
def test_masked_positions_get_no_weight_for_large_features(name, tmp_path):
    query, value = keras.Input((None, 8), name="query"), keras.Input((None, 8), name="value")
    mask = keras.Input((None,), dtype="bool", name="mask")
    model = keras.Model([query, value, mask], MECHANISMS[name]()(query, value, attention_mask=mask))
    generator = np.random.default_rng(0)
    query, value, noise = (
        (1e5 * generator.normal(size=(2, time, 8))).astype("float32") for time in (6, 3, 4)
    )
    expected = model([query, value, np.ones((2, 3), bool)])
    padded = np.concatenate([value, noise], axis=1)
    fed = {"query": query, "value": padded, "mask": np.arange(7) < np.array([[3], [3]])}
    export_functional_onnx(model, tmp_path / "attention.onnx", fed)
    (actual,) = session(tmp_path / "attention.onnx").run(None, fed)
    np.testing.assert_allclose(actual / 1e5, expected / 1e5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_inside_of_a_search(name, tmp_path):
    encoder, decoder = mechanism_parts(name)
    translator = GenerationModel(encoder, BeamDecoder(decoder, beam_width=3, max_length=30))
    keras.utils.set_random_seed(4)
    for weight in translator.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.7))
    report = export_onnx(translator, tmp_path / "translator.onnx", alignments=True)
    assert report.best_equal == 1.0
