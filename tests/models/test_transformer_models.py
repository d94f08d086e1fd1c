import random

import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    LearnedPositions,
    RelativePositionBias,
    RotaryPositions,
    SinusoidalPositions,
    TrainingModel,
    TransformerDecoder,
    TransformerEncoder,
    rnn_seq2seq,
    transformer_base,
    transformer_big,
    transformer_seq2seq,
    transformer_tiny,
)
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._models.transformer_seq2seq import POSITIONS
from tests.contracts import assert_close, assert_identical, numpy
from tests.models.test_models import INPUTS, SOURCE_IDS, TARGET_IDS, make_models, weights_of
from tests.slow_cases import all_slow_but

LABELS = np.array([[4, 5, 2], [6, 2, 0]])
SMALL = {"num_layers": 1, "num_heads": 2, "embedding_dim": 8, "intermediate_dim": 12}
RNN = {"embedding_dim": 8, "units": 5, "dropout": 0.0}


def small(*vocabulary_sizes, **arguments):
    vocabulary_sizes = vocabulary_sizes or (10, 10)
    return transformer_seq2seq(*vocabulary_sizes, **{**SMALL, "dropout": 0.0, **arguments})


def transformer_then_rnn():
    encoder, _ = small(seed=1)
    return encoder, rnn_seq2seq(10, 10, **RNN, seed=1)[1]


def rnn_then_transformer():
    _, decoder = small(seed=1)
    return rnn_seq2seq(10, 10, **RNN, seed=1)[0], decoder


def test_all_layers_have_the_precision_asked_for():
    encoder, decoder = small(positions="learned", dtype="mixed_bfloat16")
    trainer = TrainingModel(encoder, decoder)
    for layer in flatten_layers([encoder, decoder]):
        assert layer.dtype_policy.name == "mixed_bfloat16", layer.path
    assert {weight.dtype for weight in trainer.weights} == {"float32"}


MODELS = {
    **{
        positions: lambda positions=positions: small(positions=positions, seed=1)
        for positions in POSITIONS
    },
    "one embedding": lambda: small(share_embeddings=True, seed=1),
    "Transformer encoder, RNN decoder": transformer_then_rnn,
    "RNN encoder, Transformer decoder": rnn_then_transformer,
}


@pytest.mark.parametrize(
    "name",
    all_slow_but(
        *("rotary", "one embedding", "Transformer encoder, RNN decoder"),
        cases=MODELS,
        on_jax=["rotary"],
    ),
)
def test_learns_searches_and_comes_back_from_a_file(name, tmp_path):
    encoder, decoder = MODELS[name]()
    trainer, translator = make_models(encoder, decoder)
    logits = numpy(trainer(INPUTS))
    assert logits.shape == (2, 3, 10) and logits.dtype == "float32"

    before = {weight.path: numpy(weight) for weight in trainer.trainable_weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    trainer.compile(keras.optimizers.SGD(0.1), loss, run_eagerly=True)
    first = trainer.train_on_batch(INPUTS, LABELS)
    assert trainer.test_on_batch(INPUTS, LABELS) < first
    for weight in trainer.trainable_weights:
        # The bias of the keys adds the same to all scores of a query, so it has no gradient.
        moved = (numpy(weight) != before[weight.path]).any()
        assert moved or weight.path.endswith("key_bias"), weight.path

    logits, results = numpy(trainer(INPUTS)), numpy(translator(SOURCE_IDS))
    check_log_probs(decoder, encoder, results)
    translator.save(tmp_path / "translator.keras")
    loaded = keras.models.load_model(tmp_path / "translator.keras")
    assert weights_of(loaded) == weights_of(translator) == weights_of(trainer)
    assert_close(numpy(loaded(SOURCE_IDS)), results)
    encoder, decoder = loaded.encoder, loaded.decoder
    assert_close(numpy(decoder(TARGET_IDS, **encoder(SOURCE_IDS))), logits)
    assert (encoder.embedding is decoder.embedding) == (name == "one embedding")


def check_log_probs(decoder, encoder, results):
    """The log probabilities of the hypotheses are those of teacher forcing."""
    for rank in range(results["token_ids"].shape[1]):
        found = results["token_ids"][:, rank]
        inputs = np.pad(found, [(0, 0), (1, 0)], constant_values=1)[:, :-1]
        logits = numpy(decoder(inputs, **encoder(SOURCE_IDS)))
        # A search never takes padding or the start token.
        log_probs = numpy(keras.ops.log_softmax(logits, axis=-1))
        chosen = np.take_along_axis(log_probs, found[..., None], axis=2)[..., 0]
        assert_close(results["log_probs"][:, rank], (chosen * (found != 0)).sum(axis=1), 1e-4)


def test_positions_are_those_that_were_asked_for():
    def sides(positions, **arguments):
        encoder, decoder = small(positions=positions, **arguments)
        return encoder.stack, decoder.stack

    for side in sides("sinusoidal"):
        assert isinstance(side.positions, SinusoidalPositions)
    encoder, decoder = sides("learned", max_length=7)
    assert encoder.positions is not decoder.positions
    for side in (encoder, decoder):
        assert isinstance(side.positions, LearnedPositions) and side.positions.max_length == 7
    for side in sides("rotary"):
        assert isinstance(side.blocks[0].rotary, RotaryPositions)
    for side in sides("alibi"):
        assert isinstance(side.position_bias, AlibiBias) and side.position_bias.num_heads == 2
    encoder, decoder = sides("relative")
    for side, bidirectional in ((encoder, True), (decoder, False)):
        assert isinstance(side.position_bias, RelativePositionBias)
        assert side.position_bias.bidirectional == bidirectional


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_order_of_words_matters_to_both_sides(positions):
    encoder, decoder = small(positions=positions, seed=1)
    encoded = encoder(SOURCE_IDS[:1])
    logits = numpy(decoder(np.array([[1, 4, 5, 6]]), **encoded))
    other = numpy(decoder(np.array([[1, 5, 4, 6]]), **encoded))
    assert np.abs(logits[:, 3] - other[:, 3]).max() > 1e-4
    outputs = numpy(encoded["encoder_outputs"])
    exchanged = [1, 0, 2, 3]
    other = numpy(encoder(SOURCE_IDS[:1, exchanged])["encoder_outputs"])
    assert np.abs(outputs - other[:, exchanged]).max() > 1e-4


def test_two_vocabularies_have_two_embeddings():
    encoder, decoder = small(10, 12)
    assert encoder.embedding.input_dim == 10 and decoder.embedding.input_dim == 12
    assert numpy(decoder(TARGET_IDS, **encoder(SOURCE_IDS))).shape == (2, 3, 12)


def test_further_arguments_reach_the_blocks_of_both_sides():
    encoder, decoder = small(
        num_layers=2,
        normalize_first=False,
        normalization="rms",
        activation="swiglu",
        num_key_value_heads=1,
        attention_dropout=0.2,
    )
    for side in (encoder, decoder):
        assert len(side.stack.blocks) == 2
        for block in side.stack.blocks:
            assert not block.normalize_first and block.normalization == "rms"
            assert block.feed_forward.is_gated and block.num_key_value_heads == 1
            assert (block.dropout, block.attention_dropout) == (0.0, 0.2)


@pytest.mark.parametrize("make", [small, lambda **seed: rnn_seq2seq(10, 10, **RNN, **seed)])
def test_a_seed_makes_the_same_weights_whatever_is_drawn_before_they_are_built(make):
    def weights(draws):
        models = make(seed=3)
        for _ in range(draws):
            random.random()
        TrainingModel(*models)
        return [weight for part in models for weight in part.get_weights()]

    assert_identical(weights(0), weights(5))


def test_a_seed_makes_the_same_weights_and_dropout():
    def run(seed):
        encoder, decoder = small(dropout=0.3, seed=seed)
        encoded = encoder(SOURCE_IDS, training=True)
        logits = decoder(TARGET_IDS, **encoded, training=True)
        return numpy([*encoder.trainable_weights, *decoder.trainable_weights, logits])

    first, same, other = run(3), run(3), run(4)
    assert_identical(first, same)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def blocks_of(num_layers, features, intermediate):
    """Weights of encoder and decoder without embeddings, from the sizes of the paper."""
    attention = 4 * (features * features + features)
    feed_forward = 2 * features * intermediate + intermediate + features
    norm = 2 * features
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return num_layers * (encoder + decoder) + 2 * norm


SIZES = [
    (transformer_tiny, 4, 4, 128, 256, 0.3),
    (transformer_base, 6, 8, 512, 2048, 0.1),
    (transformer_big, 6, 16, 1024, 4096, 0.3),
]


@pytest.mark.parametrize(("make", "layers", "heads", "features", "intermediate", "dropout"), SIZES)
def test_well_known_sizes(make, layers, heads, features, intermediate, dropout):
    encoder, decoder = make(100, 100, share_embeddings=True)
    assert isinstance(encoder, TransformerEncoder) and isinstance(decoder, TransformerDecoder)
    assert (encoder.name, decoder.name) == ("encoder", "decoder")
    for side in (encoder, decoder):
        block = side.stack.blocks[0]
        assert len(side.stack.blocks) == layers
        assert (block.num_heads, block.intermediate_dim) == (heads, intermediate)
        assert side.embedding.output_dim == features
        assert side.stack.dropout == block.dropout == dropout and side.stack.scale_embedding


def test_the_number_of_weights_is_that_of_the_sizes():
    encoder, decoder = transformer_tiny(100, 100, share_embeddings=True, num_layers=1)
    trainer = TrainingModel(encoder, decoder)
    assert weights_of(trainer) == 100 * 128 + blocks_of(1, 128, 256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"positions": "cosine"},
            "Expected positions to be one of .* Received: positions='cosine'",
        ),
        ({"share_embeddings": True}, "Received: source_vocabulary_size=10, target_vocabulary_size"),
        ({"num_layers": 0}, "num_layers to be a positive integer. Received: num_layers=0"),
        ({"num_heads": 0}, "num_heads to be a positive integer. Received: num_heads=0"),
        ({"dropout": 1.0}, "Received: dropout=1.0"),
        ({"normalization": "batch"}, "Received: normalization='batch'"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(10, 11, **arguments)
