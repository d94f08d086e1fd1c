import keras
import numpy as np
import pytest

from keras_attn import AlibiBias, RotaryPositions, TransformerEncoderBlock
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.transformer_oracles import encoder_block, weights_of

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(2, 6, 8)).astype("float32")
MASK = np.arange(6) < np.array([[4], [6]])
BIAS = GENERATOR.normal(size=(2, 2, 6, 6)).astype("float32")
WINDOW = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) < 2


def make(*arguments, **kwargs):
    block = TransformerEncoderBlock(*arguments, **kwargs)
    block(INPUTS)
    return randomize(block)


def expected_outputs(block, attention_mask=MASK, position_bias=None, **arguments):
    """By the equations; `attention_mask` and `position_bias` are those of the call."""
    found = []
    for b, x in enumerate(INPUTS):
        found.append(
            encoder_block(
                x,
                weights_of(block),
                block.num_heads,
                normalize_first=block.normalize_first,
                mask=attention_mask[b],
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
    outputs = numpy(block(INPUTS, attention_mask=MASK, position_bias=BIAS))
    assert_close(outputs, expected_outputs(block, position_bias=BIAS, activation=activation))


@pytest.mark.parametrize(
    ("arguments", "attention"),
    [
        ({"num_key_value_heads": 1, "key_dim": 6}, {"num_groups": 1}),
        ({"rotary": RotaryPositions()}, {"rotate": position_oracles.rotary}),
        ({"use_bias": False}, {}),
    ],
    ids=["multi-query", "rotary", "no bias"],
)
def test_arguments_reach_the_attention(arguments, attention):
    block = make(2, 12, **arguments)
    outputs = numpy(block(INPUTS, attention_mask=MASK))
    assert_close(outputs, expected_outputs(block, **attention))
    assert len(block.weights) == (10 if arguments.get("use_bias") is False else 16)


def test_a_window_hides_what_is_far():
    block = make(2, 12, sliding_window=2)
    both = WINDOW & MASK[:, None, :]
    # Padding far away from everything real has nothing to attend to, which the oracle allows too.
    assert_close(numpy(block(INPUTS, attention_mask=MASK)), expected_outputs(block, both))


def test_masks_of_all_ranks():
    block = make(2, 12)
    rank_3 = GENERATOR.random((2, 6, 6)) < 0.6
    rank_4 = GENERATOR.random((2, 2, 6, 6)) < 0.6
    for mask in (MASK, rank_3, rank_4):
        assert_close(numpy(block(INPUTS, attention_mask=mask)), expected_outputs(block, mask))


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("normalization", ["layer", "rms"])
@pytest.mark.parametrize("flash_attention", [None, True])
def test_the_implicit_mask_counts(normalize_first, normalization, flash_attention):
    block = make(
        2,
        12,
        normalize_first=normalize_first,
        normalization=normalization,
        flash_attention=flash_attention,
    )
    inputs = np.where(MASK[:, :, None], INPUTS, 0)
    masked = keras.layers.Masking()(inputs)
    expected = numpy(block(inputs, attention_mask=MASK))
    assert_close(numpy(block(masked)), expected)
    # Together with a mask that is passed, what both allow.
    late = np.arange(6) >= np.array([[1], [2]])
    expected = numpy(block(inputs, attention_mask=MASK & late))
    assert_close(numpy(block(masked, attention_mask=late)), expected)


def test_the_mask_of_an_embedding_goes_through_a_stack_of_blocks():
    ids = keras.Input((None,), dtype="int32")
    vectors = keras.layers.Embedding(6, 8, mask_zero=True)(ids)
    for _ in range(2):
        vectors = TransformerEncoderBlock(2, 12)(vectors)
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(vectors))
    assert_close(numpy(model(np.array([[3, 4, 5, 0, 0]]))), numpy(model(np.array([[3, 4, 5]]))))


@pytest.mark.parametrize("sliding_window", [None, 3])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_blockwise_form_equals_the_plain_one(activation, sliding_window):
    arguments = {
        "activation": activation,
        "sliding_window": sliding_window,
        "num_key_value_heads": 1,
        "rotary": RotaryPositions(),
    }
    plain = make(2, 12, **arguments)
    blockwise = make(2, 12, flash_attention=True, **arguments)
    assert_identical(blockwise.get_weights(), plain.get_weights())
    for call in ({}, {"attention_mask": MASK}, {"position_bias": AlibiBias(2)}):
        assert_close(numpy(blockwise(INPUTS, **call)), numpy(plain(INPUTS, **call)))


@pytest.mark.parametrize("normalization", ["layer", "rms"])
def test_epsilon_reaches_the_norms(normalization):
    block = make(2, 12, normalization=normalization, epsilon=0.1)
    assert block.attention_norm.epsilon == block.feed_forward_norm.epsilon == 0.1


def test_an_initializer_may_be_a_function():
    block = TransformerEncoderBlock(2, 12, kernel_initializer=keras.ops.ones)
    block(INPUTS)
    assert (numpy(block.feed_forward.expansion.kernel.value) == 1).all()


def test_the_blockwise_form_refuses_what_it_has_not():
    block = TransformerEncoderBlock(2, 12, flash_attention=True)
    with pytest.raises(ValueError, match=r"Expected attention_mask .* shape \(2, 6, 6\)"):
        block(INPUTS, attention_mask=np.ones((2, 6, 6), bool))
    with pytest.raises(ValueError, match="Expected position_bias to be a layer"):
        block(INPUTS, position_bias=BIAS)
    with pytest.raises(ValueError, match="attention_dropout=0.1. Set attention_dropout=0"):
        TransformerEncoderBlock(2, 12, flash_attention=True, dropout=0.1)
    TransformerEncoderBlock(2, 12, flash_attention=True, dropout=0.1, attention_dropout=0)(INPUTS)


BLOCKS = {
    "blockwise, post-norm, gelu": lambda: TransformerEncoderBlock(
        2, 12, normalize_first=False, activation="gelu", use_bias=False, flash_attention=True
    ),
    "rms, swiglu, rotary, grouped, window": lambda: TransformerEncoderBlock(
        4,
        12,
        key_dim=6,
        num_key_value_heads=2,
        activation="swiglu",
        normalization="rms",
        use_bias=False,
        sliding_window=4,
        rotary=RotaryPositions(layout="interleaved"),
        epsilon=1e-3,
        kernel_initializer="he_normal",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_is_a_good_layer(name):
    check_layer(BLOCKS[name], {"inputs": INPUTS, "attention_mask": MASK})


@pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("name", ["attention_mask", "attention_mask of rank 3"])
def test_padding_changes_nothing_that_is_real(name, normalize_first):
    block = make(2, 12, normalize_first=normalize_first)
    mask = MASK if name == "attention_mask" else np.tile(MASK[:, None], (1, 6, 1))
    noise = GENERATOR.normal(0, 100, INPUTS.shape).astype("float32")
    noisy = np.where(MASK[:, :, None], INPUTS, noise)
    received = numpy(block(noisy, attention_mask=mask))
    assert_identical(received[MASK], numpy(block(INPUTS, attention_mask=mask))[MASK])


def dropped(**dropout):
    """Outputs in training of a block whose dropout is only as given."""
    arguments = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "seed": 2}
    return numpy(make(2, 12, **{**arguments, **dropout})(INPUTS, training=True))


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_has_an_effect_of_its_own_in_training(name):
    without = dropped()
    assert_close(without, numpy(make(2, 12)(INPUTS)))
    assert np.abs(dropped(**{name: 0.5}) - without).max() > 0.1
    assert_identical(dropped(**{name: 0.5}), dropped(**{name: 0.5}))
    assert_identical(numpy(make(2, 12, **{name: 0.5})(INPUTS)), numpy(make(2, 12)(INPUTS)))


def test_dropout_is_that_of_the_attention_and_the_activation_unless_they_have_their_own():
    block = TransformerEncoderBlock(2, 12, dropout=0.3)
    assert block.attention_dropout == block.activation_dropout == 0.3
    block = TransformerEncoderBlock(2, 12, dropout=0.3, attention_dropout=0, activation_dropout=0.1)
    assert (block.attention_dropout, block.activation_dropout) == (0, 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads to be a positive integer. Received: num_heads=0"),
        ({"intermediate_dim": 0}, "to be a positive integer. Received: intermediate_dim=0"),
        ({"normalization": "batch"}, "to be one of .* Received: normalization='batch'"),
        ({"dropout": 1.0}, r"dropout to be in \[0, 1\). Received: dropout=1.0"),
        ({"dropout": -0.1}, "Received: dropout=-0.1"),
        (
            {"attention_dropout": 1.5},
            "^Expected attention_dropout .*d: attention_dropout=1.5",
        ),
        ({"activation_dropout": 1.5}, "Received: activation_dropout=1.5"),
        ({"num_heads": 3}, "num_heads to divide .* Received: num_heads=3, features=8"),
        ({"key_dim": 0}, "key_dim to be a positive integer. Received: key_dim=0"),
        ({"num_key_value_heads": 3}, "to divide num_heads. Received: num_key_value_heads=3"),
        ({"sliding_window": 0}, "Received: sliding_window=0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerEncoderBlock(**{"num_heads": 2, "intermediate_dim": 12, **arguments})(INPUTS)


def test_inputs_must_be_of_rank_3():
    with pytest.raises(ValueError, match=r"\(batch, time, features\).*with shape \(2, 1, 6, 8\)"):
        TransformerEncoderBlock(2, 12)(INPUTS[:, None])
