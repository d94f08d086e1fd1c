import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AlibiBias,
    BeamDecoder,
    GreedyDecoder,
    LearnedPositions,
    RelativePositionBias,
    RotaryPositions,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    record_attention_scores,
)
from keras_attn.testing import check_decoder, check_layer, check_search
from tests import position_oracles
from tests.backend import precision
from tests.contracts import assert_close, numpy, randomize
from tests.slow_cases import all_slow_but
from tests.transformer_oracles import decoder_block, norm, weights_of

GENERATOR = np.random.default_rng(0)
VOCABULARY_SIZE = 5
TOKEN_IDS = np.array([[1, 3, 4, 3], [1, 4, 4, 2], [1, 3, 3, 4]], "int32")
ENCODED = {
    "encoder_outputs": GENERATOR.normal(size=(3, 6, 5)).astype("float32"),
    "encoder_mask": np.arange(6) < np.array([[6], [2], [4]]),
}


def decoder(num_heads=2, head=None, stack=None, **block):
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
    if head is not None:
        embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8)
    block = TransformerDecoderBlock(num_heads, 12, **block)
    return TransformerDecoder(block, embedding, head=head, num_layers=2, **(stack or {}))


DECODERS = {
    "sinusoidal, pre-norm": lambda: decoder(
        stack={
            "positions": SinusoidalPositions(),
            "scale_embedding": True,
            "use_output_bias": True,
        }
    ),
    "sinusoidal in halves, post-norm": lambda: decoder(
        normalize_first=False,
        stack={"positions": SinusoidalPositions("halves", offset=2), "embedding_norm": True},
    ),
    # Without biases: that of the keys changes no weight, so that it has no gradient.
    "learned, gelu": lambda: decoder(
        activation="gelu", use_bias=False, stack={"positions": LearnedPositions(9, offset=1)}
    ),
    "rotary, rms, swiglu, grouped": lambda: decoder(
        num_heads=4,
        num_key_value_heads=2,
        key_dim=2,
        rotary=RotaryPositions(),
        normalization="rms",
        activation="swiglu",
        use_bias=False,
    ),
    "rotary interleaved, multi-query": lambda: decoder(
        num_heads=4, num_key_value_heads=1, rotary=RotaryPositions(layout="interleaved")
    ),
    "alibi": lambda: decoder(stack={"position_bias": AlibiBias(2)}),
    "alibi, blockwise": lambda: decoder(
        flash_attention=True, use_bias=False, stack={"position_bias": AlibiBias(2)}
    ),
    "relative bias, rms, post-norm": lambda: decoder(
        normalization="rms",
        normalize_first=False,
        stack={"position_bias": RelativePositionBias(2, 8, max_distance=6, bidirectional=False)},
    ),
    "window, alibi, archive": lambda: decoder(
        sliding_window=3, stack={"position_bias": AlibiBias(2), "cache_block_size": 2}
    ),
    "grouped, archive": lambda: decoder(
        num_heads=4, num_key_value_heads=2, use_bias=False, stack={"cache_block_size": 1}
    ),
    "window, fixed cache": lambda: decoder(
        sliding_window=2, stack={"positions": SinusoidalPositions(), "growing_cache": False}
    ),
    "alibi, fixed cache, with a head": lambda: decoder(
        head=keras.layers.Dense(VOCABULARY_SIZE),
        stack={"position_bias": AlibiBias(2), "growing_cache": False},
    ),
}


SLOW = [
    "grouped, archive",
    "relative bias, rms, post-norm",
    "alibi, fixed cache, with a head",
    "sinusoidal in halves, post-norm",
    "learned, gelu",
    "rotary interleaved, multi-query",
    "alibi",
]


@pytest.fixture(
    params=all_slow_but(
        *(each for each in DECODERS if each not in SLOW),
        cases=DECODERS,
        on_jax=["alibi, blockwise", "window, fixed cache"],
    )
)
def name(request):
    return request.param


def test_keeps_the_contract(name):
    check_decoder(DECODERS[name], ENCODED, TOKEN_IDS)


@pytest.mark.parametrize(
    "name",
    all_slow_but(
        "window, alibi, archive",
        cases=["sinusoidal, pre-norm", "rotary, rms, swiglu, grouped", "window, alibi, archive"],
    ),
)
def test_searches_find_the_best_hypotheses(name):
    encoded = tree.map_structure(lambda leaf: leaf[:2], ENCODED)
    check_search(DECODERS[name], encoded, VOCABULARY_SIZE)


@pytest.mark.parametrize(
    "name",
    all_slow_but(
        "rotary, rms, swiglu, grouped", cases=["learned, gelu", "rotary, rms, swiglu, grouped"]
    ),
)
def test_is_a_good_layer(name):
    check_layer(
        DECODERS[name],
        {"token_ids": TOKEN_IDS, **ENCODED},
        masked={"encoder_outputs": "encoder_mask"},
        mixed_dtype="float32",
    )


def test_steps_of_half_precision_add_a_bias_to_the_ancestors():
    with precision("mixed_float16"):
        made = DECODERS["relative bias, rms, post-norm"]()
    made(TOKEN_IDS, **ENCODED)
    randomize(made)
    (table,) = made.stack.position_bias.weights
    table.assign(10 * table)
    expected = numpy(made(TOKEN_IDS, **ENCODED))
    memory = made.prepare_memory(**ENCODED)
    state = made.initial_state(memory, max_length=TOKEN_IDS.shape[1])
    for t in range(TOKEN_IDS.shape[1]):
        logits, state = made.step(TOKEN_IDS[:, t], state, memory)
        assert_close(numpy(logits), expected[:, t], 0.02)
    table.assign(0 * table)
    assert np.abs(numpy(made(TOKEN_IDS, **ENCODED)) - expected).max() > 0.1


@pytest.mark.parametrize(
    ("head", "use_output_bias"),
    [(None, False), (None, True), (keras.layers.Dense(VOCABULARY_SIZE), False)],
    ids=["tied", "tied with a bias", "head"],
)
def test_logits_are_those_of_the_paper(head, use_output_bias):
    stack = {"positions": SinusoidalPositions(), "scale_embedding": True}
    made = decoder(head=head, stack={**stack, "use_output_bias": use_output_bias})
    made(TOKEN_IDS, **ENCODED)
    randomize(made)
    embeddings, weights = numpy(made.embedding.embeddings), weights_of(made)["stack"]
    output_bias = numpy(made.output_bias) if use_output_bias else 0
    assert np.abs(output_bias).max() > 0.1 or not use_output_bias
    positions = [position_oracles.sinusoidal_interleaved(t, 8) for t in range(4)]
    for b, ids in enumerate(TOKEN_IDS):
        x = embeddings[ids] * np.sqrt(8) + positions
        for block in ("block_0", "block_1"):
            memory, mask = ENCODED["encoder_outputs"][b], ENCODED["encoder_mask"][b]
            x = decoder_block(x, memory, weights[block], 2, memory_mask=mask)
        x = norm(x, weights["final_norm"])
        kernel, bias = (embeddings.T, 0) if head is None else numpy([head.kernel, head.bias])
        bias = bias + output_bias
        assert_close(numpy(made(TOKEN_IDS, **ENCODED))[b], x @ kernel + bias)


def test_the_weights_are_the_mean_of_the_last_block_s_heads():
    made = DECODERS["sinusoidal, pre-norm"]()
    made(TOKEN_IDS, **ENCODED)
    randomize(made)
    with record_attention_scores() as scores:
        _, weights = made(TOKEN_IDS, **ENCODED, return_attention_scores=True)
    (last,) = [each for path, each in scores.items() if "block_1/cross_attention_layer" in path]
    assert_close(numpy(weights), last.mean(axis=1))


def test_teacher_forcing_returns_the_weights_of_the_steps():
    made = DECODERS["sinusoidal, pre-norm"]()
    made(TOKEN_IDS, **ENCODED)
    randomize(made)
    logits, weights = numpy(made(TOKEN_IDS, **ENCODED, return_attention_scores=True))
    assert_close(logits, numpy(made(TOKEN_IDS, **ENCODED)))
    memory = made.prepare_memory(**ENCODED)
    state = made.initial_state(memory, alignments=True, max_length=TOKEN_IDS.shape[1])
    for t in range(TOKEN_IDS.shape[1]):
        _, state = made.step(TOKEN_IDS[:, t], state, memory)
        assert_close(weights[:, t], numpy(state["alignments"]))


def test_a_search_stays_within_a_fixed_cache():
    model = decoder(stack={"positions": SinusoidalPositions(), "growing_cache": False})
    search = GreedyDecoder(model, max_length=4, relative_max_length=None, suppressed_token_ids=[2])
    results = numpy(search(**ENCODED, max_length=9))
    assert results["lengths"].tolist() == [[4]] * 3
    assert_close(results, numpy(search(**ENCODED)))


@pytest.mark.parametrize(
    "block",
    [TransformerDecoderBlock(2, 12, cross_attention=False), TransformerEncoderBlock(2, 12)],
    ids=lambda block: type(block).__name__,
)
def test_blocks_without_cross_attention_are_refused(block):
    with pytest.raises(ValueError, match="a block with cross-attention"):
        TransformerDecoder(block, keras.layers.ReversibleEmbedding(5, 8))


def test_a_built_block_is_a_pattern_for_other_sizes():
    block = TransformerDecoderBlock(2, 12)
    block(np.ones((1, 2, 16), "float32"), np.ones((1, 3, 5), "float32"))
    built = TransformerDecoder(block, keras.layers.ReversibleEmbedding(5, 8), num_layers=1)
    assert tuple(built(TOKEN_IDS, **ENCODED).shape) == (3, 4, 5)


def test_the_last_norm_has_the_precision_of_the_blocks():
    embedding = keras.layers.ReversibleEmbedding(5, 8)
    block = TransformerDecoderBlock(2, 12)
    made = TransformerDecoder(block, embedding, num_layers=1, dtype="mixed_bfloat16")
    assert made.stack.final_norm.compute_dtype == made.stack.blocks[0].compute_dtype == "bfloat16"


def test_a_built_block_with_rotary_positions_is_a_pattern_for_other_sizes():
    block = TransformerDecoderBlock(2, 12, rotary=RotaryPositions())
    block(np.ones((1, 2, 16), "float32"), np.ones((1, 3, 5), "float32"))
    built = TransformerDecoder(block, keras.layers.ReversibleEmbedding(5, 8), num_layers=1)
    assert tuple(built(TOKEN_IDS, **ENCODED).shape) == (3, 4, 5)


def test_a_batch_of_zero_sentences_has_zero_hypotheses():
    search = BeamDecoder(decoder(), beam_width=3, num_hypotheses=2, max_length=5)
    results = numpy(search(np.zeros((0, 4, 8), "float32"), np.zeros((0, 4), "bool")))
    assert results["scores"].shape == (0, 2) and results["token_ids"].shape[:2] == (0, 2)


@pytest.mark.parametrize("part", ["input", "cross_attention_layer"])
def test_the_dropout_of_each_part_has_an_effect_in_training(part):
    rates = {"attention_dropout": 0.5} if part == "cross_attention_layer" else {}
    made = decoder(stack={"dropout": 0.5 if part == "input" else 0.0, "seed": 1}, **rates)
    made(TOKEN_IDS, **ENCODED)
    randomize(made)
    for block in made.stack.blocks:
        block.self_attention.dropout = 0.0
    inference = numpy(made(TOKEN_IDS, **ENCODED))
    assert_close(numpy(made(TOKEN_IDS, **ENCODED, training=False)), inference)
    assert np.abs(numpy(made(TOKEN_IDS, **ENCODED, training=True)) - inference).max() > 0.01


def test_a_start_token_that_is_padding_too_is_seen():
    # As in T5. The embedding would hide it.
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8, mask_zero=True)
    made = TransformerDecoder(TransformerDecoderBlock(2, 12), embedding, num_layers=2)
    token_ids = np.where(np.arange(TOKEN_IDS.shape[1]) == 0, 0, TOKEN_IDS).astype("int32")
    made(token_ids, **ENCODED)
    randomize(made)
    expected = numpy(made(token_ids, **ENCODED))
    memory = made.prepare_memory(**ENCODED)
    state = made.initial_state(memory, max_length=token_ids.shape[1])
    for t in range(token_ids.shape[1]):
        logits, state = made.step(token_ids[:, t], state, memory)
        assert_close(numpy(logits), expected[:, t])


def test_a_search_ends_where_the_learned_positions_end():
    model = decoder(stack={"positions": LearnedPositions(5)})
    search = GreedyDecoder(model, max_length=9, relative_max_length=None, suppressed_token_ids=[2])
    assert numpy(search(**ENCODED))["lengths"].tolist() == [[5]] * 3
    assert numpy(search(**ENCODED, max_length=3))["lengths"].tolist() == [[3]] * 3


def test_an_output_bias_with_a_head_is_refused():
    with pytest.raises(ValueError, match="use_output_bias=False.*Received: .*head=Dense"):
        decoder(head=keras.layers.Dense(VOCABULARY_SIZE), stack={"use_output_bias": True})


def test_a_fixed_cache_needs_its_size():
    model = decoder(stack={"positions": SinusoidalPositions(), "growing_cache": False})
    model(TOKEN_IDS, **ENCODED)
    with pytest.raises(ValueError, match="Received: max_length=None"):
        model.initial_state(model.prepare_memory(**ENCODED))
