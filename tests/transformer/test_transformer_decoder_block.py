import itertools

import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    CacheView,
    RelativePositionBias,
    RotaryPositions,
    TransformerDecoderBlock,
)
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.contracts import assert_close, assert_identical, numpy, randomize, tensor
from tests.slow_cases import all_slow_but
from tests.transformer_oracles import decoder_block, weights_of

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(2, 6, 8)).astype("float32")
ENCODED = GENERATOR.normal(size=(2, 5, 7)).astype("float32")
ENCODER_MASK = np.arange(5) < np.array([[2], [5]])
MASK = np.arange(6) >= np.array([[1], [0]])  # what a decoder may not see, on the left
BIAS = GENERATOR.normal(size=(2, 2, 6, 6)).astype("float32")


def make(*arguments, **kwargs):
    block = TransformerDecoderBlock(*arguments, **kwargs)
    block(INPUTS, ENCODED if block.cross_attention else None)
    return randomize(block)


def expected_outputs(block, position_bias=None, attention_mask=None, **arguments):
    """By the equations; `attention_mask` and `position_bias` are those of the call."""
    found = []
    for b, x in enumerate(INPUTS):
        found.append(
            decoder_block(
                x,
                ENCODED[b] if block.cross_attention else None,
                weights_of(block),
                block.num_heads,
                normalize_first=block.normalize_first,
                memory_mask=ENCODER_MASK[b],
                mask=True if attention_mask is None else attention_mask[b],
                bias=0.0 if position_bias is None else position_bias[b],
                **arguments,
            )
        )
    return np.array(found)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("normalization", ["layer", "rms"])
def test_equals_the_equations(normalization, normalize_first, activation):
    block = make(
        2, 12, normalization=normalization, normalize_first=normalize_first, activation=activation
    )
    call = {"position_bias": BIAS, "attention_mask": MASK}
    outputs = numpy(block(INPUTS, ENCODED, ENCODER_MASK, **call))
    assert_close(outputs, expected_outputs(block, **call, activation=activation))


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])
def test_without_cross_attention_equals_the_equations(normalize_first):
    block = make(2, 12, cross_attention=False, normalize_first=normalize_first)
    assert_close(numpy(block(INPUTS)), expected_outputs(block))
    assert block.prepare_memory(None) == {}


def test_arguments_reach_both_attentions():
    block = make(4, 12, key_dim=6, num_key_value_heads=2, use_bias=False, rotary=RotaryPositions())
    expected = expected_outputs(block, num_groups=2, rotate=position_oracles.rotary)
    assert_close(numpy(block(INPUTS, ENCODED, ENCODER_MASK)), expected)


@pytest.mark.parametrize("initializer", ["glorot_uniform", "he_normal"])
def test_no_two_kernels_begin_alike(initializer):
    block = TransformerDecoderBlock(2, 8, kernel_initializer=initializer)
    block(INPUTS, INPUTS)
    kernels = [numpy(weight) for weight in block.weights if len(weight.shape) == 2]
    assert [kernel.shape for kernel in kernels] == [(8, 8)] * 10
    for one, other in itertools.combinations(kernels, 2):
        assert np.abs(one - other).max() > 0.01


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])
def test_neither_the_future_nor_padding_is_seen(normalize_first):
    block = make(2, 12, normalize_first=normalize_first)
    outputs = numpy(block(INPUTS, ENCODED, ENCODER_MASK))
    noise = GENERATOR.normal(0, 100, ENCODED.shape).astype("float32")
    noisy = np.where(ENCODER_MASK[:, :, None], ENCODED, noise)
    assert_identical(numpy(block(INPUTS, noisy, ENCODER_MASK)), outputs)
    future = INPUTS.copy()
    future[:, 3:] += 100
    received = numpy(block(future, ENCODED, ENCODER_MASK))
    assert_close(received[:, :3], outputs[:, :3])
    assert np.abs(received[:, 3:] - outputs[:, 3:]).min(axis=(1, 2)).max() > 0


STEPS = {
    "default": ({}, None),
    "post-norm": ({"normalize_first": False}, None),
    "rms, swiglu, rotary, grouped": (
        {
            "normalization": "rms",
            "activation": "swiglu",
            "rotary": RotaryPositions(),
            "num_key_value_heads": 1,
        },
        None,
    ),
    "rotary interleaved, window": (
        {"rotary": RotaryPositions(layout="interleaved"), "sliding_window": 2},
        None,
    ),
    "alibi": ({}, lambda: AlibiBias(2)),
    "relative bias, window": (
        {"sliding_window": 3},
        lambda: RelativePositionBias(2, 8, max_distance=6, bidirectional=False),
    ),
    "no cross-attention": ({"cross_attention": False}, None),
    "blockwise": ({"flash_attention": True}, None),
}


@pytest.mark.parametrize(
    "growing",
    all_slow_but(True, False, cases=[True, False], on_jax=[False]),
    ids=["growing", "fixed"],
)
@pytest.mark.parametrize("name", STEPS)
def test_cached_steps_equal_the_full_pass(name, growing):
    arguments, make_bias = STEPS[name]
    block = make(2, 12, **arguments)
    bias = None
    if make_bias is not None:
        bias = make_bias()
        bias(np.arange(6)[None], np.arange(6)[None])
        randomize(bias)
    memory = block.prepare_memory(ENCODED, ENCODER_MASK)
    outputs, weights = block.run(tensor(INPUTS), memory, position_bias=bias)
    outputs, weights = numpy(outputs), None if weights is None else numpy(weights)
    if block.cross_attention:
        again = numpy(block(INPUTS, ENCODED, ENCODER_MASK, position_bias=bias))
        assert_close(again, outputs)
    for parts in ((1, 1, 1, 3), (2, 1, 3)):
        state, slot = block.initial_state(2, 8, growing), 0
        for new in parts:
            now = slice(slot, slot + new)
            view = CacheView(np.int32(slot), growing=growing)
            step_outputs, step_weights, state = block.step(
                tensor(INPUTS[:, now]), state, memory, view, bias
            )
            slot += new
            assert_close(numpy(step_outputs), outputs[:, now])
            if weights is None:
                assert step_weights is None
            else:
                assert_close(numpy(step_weights), weights[:, :, now])


@pytest.mark.parametrize("growing", [True, False], ids=["growing", "fixed"])
def test_the_beams_of_a_sentence_share_its_memory(growing):
    block, beams = make(2, 12), 3
    inputs = GENERATOR.normal(size=(2 * beams, 6, 8)).astype("float32")
    sentences = np.repeat(np.arange(2), beams)
    expected = numpy(block(inputs, ENCODED[sentences], ENCODER_MASK[sentences]))
    memory = block.prepare_memory(ENCODED, ENCODER_MASK)
    assert numpy(memory["keys"]).shape[0] == 2
    assert_close(numpy(block.run(tensor(inputs), memory)[0]), expected)
    state = block.initial_state(2 * beams, 6, growing)
    for start, stop in ((0, 2), (2, 3), (3, 6)):
        view = CacheView(np.int32(start), growing=growing)
        outputs, weights, state = block.step(tensor(inputs[:, start:stop]), state, memory, view)
        assert_close(numpy(outputs), expected[:, start:stop])
        assert numpy(weights).shape == (2, 2, beams * (stop - start), 5)


def test_the_blockwise_form_equals_the_plain_one():
    plain, blockwise = make(2, 12), make(2, 12, flash_attention=True)
    assert_identical(blockwise.get_weights(), plain.get_weights())
    for call in ({}, {"attention_mask": MASK}, {"position_bias": AlibiBias(2)}):
        inputs = (INPUTS, ENCODED, ENCODER_MASK)
        assert_close(numpy(blockwise(*inputs, **call)), numpy(plain(*inputs, **call)))


BLOCKS = {
    "post-norm, rms, swiglu": lambda: TransformerDecoderBlock(
        2, 12, use_bias=False, normalize_first=False, normalization="rms", activation="swiglu"
    ),
    "rotary, grouped, window": lambda: TransformerDecoderBlock(
        4,
        12,
        key_dim=6,
        num_key_value_heads=2,
        use_bias=False,
        rotary=RotaryPositions(),
        sliding_window=3,
        activation="gelu",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_is_a_good_layer(name):
    inputs = {"inputs": INPUTS, "encoder_outputs": ENCODED, "encoder_mask": ENCODER_MASK}
    check_layer(BLOCKS[name], inputs, masked={"encoder_outputs": "encoder_mask"})


def test_is_a_good_layer_without_cross_attention():
    def block():
        return TransformerDecoderBlock(2, 12, cross_attention=False, use_bias=False)

    check_layer(block, {"inputs": INPUTS})


@pytest.mark.parametrize("growing", [True, False], ids=["growing", "fixed"])
def test_half_precision_goes_through_the_cache_with_float32_biases(growing):
    block = make(2, 12, dtype="mixed_float16", rotary=RotaryPositions())
    full = make(2, 12, rotary=RotaryPositions())
    call = {"position_bias": AlibiBias(2)}
    expected = numpy(full(INPUTS, ENCODED, ENCODER_MASK, **call))
    half = numpy(block(INPUTS, ENCODED, ENCODER_MASK, **call))
    assert half.dtype == "float16"
    assert_close(half, expected, 0.03)
    memory = block.prepare_memory(ENCODED, ENCODER_MASK)
    state = block.initial_state(2, 6, growing)
    for t in range(6):
        now = tensor(INPUTS[:, t : t + 1], "float16")
        view = CacheView(np.int32(t), growing=growing)
        outputs, weights, state = block.step(now, state, memory, view, **call)
        kinds = [outputs, weights, state["keys"], state["values"]]
        assert {str(numpy(each).dtype) for each in kinds} == {"float16"}
        assert_close(numpy(outputs)[:, 0], expected[:, t], 0.03)


def test_a_sentence_of_padding_alone_gives_a_finite_result():
    block = make(2, 12)
    nothing = np.zeros_like(ENCODER_MASK)
    outputs = numpy(block(INPUTS, ENCODED, nothing))
    assert np.isfinite(outputs).all()
    assert_identical(numpy(block(INPUTS, ENCODED + 100, nothing)), outputs)


def test_cross_attention_needs_a_memory():
    with pytest.raises(ValueError, match="encoder_outputs .*Received: encoder_outputs=None"):
        TransformerDecoderBlock(2, 12)(INPUTS)
    with pytest.raises(ValueError, match=r"value of shape .* with shape \(2, 7\)"):
        TransformerDecoderBlock(2, 12)(INPUTS, ENCODED[:, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads to be a positive integer. Received: num_heads=0"),
        ({"normalization": "batch"}, "to be one of .* Received: normalization='batch'"),
        ({"dropout": 1.0}, "Received: dropout=1.0"),
        ({"num_heads": 3}, "num_heads to divide .* Received: num_heads=3, features=8"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        block = TransformerDecoderBlock(**{"num_heads": 2, "intermediate_dim": 12, **arguments})
        block(INPUTS, ENCODED)


def test_the_implicit_mask_of_the_memory_counts():
    block = make(2, 12)
    memory = keras.layers.Masking()(np.where(ENCODER_MASK[:, :, None], ENCODED, 0))
    expected = numpy(block(INPUTS, ENCODED, encoder_mask=ENCODER_MASK))
    assert_close(numpy(block(INPUTS, memory)), expected)
    early = np.arange(ENCODER_MASK.shape[1]) < np.full((len(ENCODER_MASK), 1), 3)
    expected = numpy(block(INPUTS, ENCODED, encoder_mask=ENCODER_MASK & early))
    assert_close(numpy(block(INPUTS, memory, encoder_mask=early)), expected)


def test_with_one_seed_each_part_drops_on_its_own():
    block = TransformerDecoderBlock(2, 8, dropout=0.5, seed=1)
    inputs = np.ones((2, 4, 8), "float32")
    block(inputs, inputs)
    ones = np.ones((64,), "float32")
    parts = [
        block.residual_dropout,
        block.feed_forward.dropout_layer,
        block.self_attention.dropout_layer,
        block.cross_attention_layer.dropout_layer,
    ]
    dropped = {tuple(numpy(part(ones, training=True)).tolist()) for part in parts}
    assert len(dropped) == len(parts)
