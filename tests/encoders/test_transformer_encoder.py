import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    LearnedPositions,
    RelativePositionBias,
    RotaryPositions,
    SinusoidalPositions,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.backend import precision
from tests.contracts import assert_close, numpy, randomize
from tests.transformer_oracles import encoder_block, norm, weights_of

IDS = np.array([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0]], "int32")
MASK = IDS != 0
FEATURES = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def make(block=None, embedding=True, num_layers=2, **stack):
    block = TransformerEncoderBlock(2, 12, **(block or {}))
    embedding = keras.layers.Embedding(10, 8) if embedding else None
    return TransformerEncoder(block, embedding, num_layers=num_layers, **stack)


def build(encoder):
    encoder(IDS if encoder.embedding is not None else FEATURES)
    return randomize(encoder)


def run(encoder, x, mask, **block):
    """Outputs of one sentence of vectors with positions, by the equations."""
    weights = weights_of(encoder)["stack"]
    first = encoder.stack.blocks[0].normalize_first
    for index in range(2):
        own = weights[f"block_{index}"]
        x = encoder_block(x, own, 2, normalize_first=first, mask=mask, **block)
    return norm(x, weights["final_norm"]) if first else x


ENCODERS = {
    "sinusoidal": lambda: make(positions=SinusoidalPositions(), scale_embedding=True),
    "learned, post-norm": lambda: make(
        {"normalize_first": False}, positions=LearnedPositions(7, offset=2), embedding_norm=True
    ),
    "rotary, rms": lambda: make({"normalization": "rms", "rotary": RotaryPositions()}),
    "alibi": lambda: make(position_bias=AlibiBias(2), scale_embedding=True),
    "relative": lambda: make(position_bias=RelativePositionBias(2, 8, max_distance=6)),
    "alibi, blockwise": lambda: make({"flash_attention": True}, position_bias=AlibiBias(2)),
    "relative, blockwise": lambda: make(
        {"flash_attention": True}, position_bias=RelativePositionBias(2, 8, max_distance=6)
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_equals_the_equations(name):
    encoder = build(ENCODERS[name]())
    outputs = numpy(encoder(IDS))
    assert set(outputs) == {"encoder_outputs", "encoder_mask"}
    np.testing.assert_array_equal(outputs["encoder_mask"], MASK)
    positions, block = np.arange(5), {}
    if name.startswith("rotary"):
        block["rotate"] = position_oracles.rotary
    elif name.startswith("alibi"):
        block["bias"] = position_oracles.alibi_bias(2, positions, positions)
    elif name.startswith("relative"):
        table = numpy(encoder.stack.position_bias.embeddings)
        block["bias"] = position_oracles.t5_bias(table, positions, positions, max_distance=6)
    for b, ids in enumerate(IDS):
        x = numpy(encoder.embedding.embeddings)[ids].astype("float64")
        if encoder.stack.scale_embedding:
            x *= np.sqrt(8)
        if name == "sinusoidal":
            x += [position_oracles.sinusoidal_interleaved(t, 8) for t in positions]
        elif name.startswith("learned"):
            x += numpy(encoder.stack.positions.embeddings)[2:7]
            x = norm(x, weights_of(encoder)["stack"]["embedding_norm"])
        expected = run(encoder, x, MASK[b], **block)
        assert_close(outputs["encoder_outputs"][b], expected)


def test_reads_vectors_without_an_embedding():
    encoder = build(make(embedding=False, dropout=0.5))
    outputs = numpy(encoder(FEATURES))
    assert outputs["encoder_mask"].shape == (2, 5) and outputs["encoder_mask"].all()
    assert_close(outputs["encoder_outputs"][0], run(encoder, FEATURES[0], True))
    outputs = numpy(encoder(FEATURES, mask=MASK))
    np.testing.assert_array_equal(outputs["encoder_mask"], MASK)
    for b in range(2):
        assert_close(outputs["encoder_outputs"][b], run(encoder, FEATURES[b], MASK[b]))


def test_the_implicit_mask_of_vectors_counts():
    encoder = build(make(embedding=False))
    inputs = np.where(MASK[:, :, None], FEATURES, 0)
    outputs = numpy(encoder(keras.layers.Masking()(inputs)))
    assert_close(outputs, numpy(encoder(inputs, mask=MASK)))


def test_a_mask_that_is_passed_comes_before_padding():
    encoder = build(make())
    other = np.array([[True, False, True, True, True], [True, True, True, False, False]])
    outputs = numpy(encoder(IDS, mask=other))
    np.testing.assert_array_equal(outputs["encoder_mask"], other)
    x = numpy(encoder.embedding.embeddings)[IDS[0]]
    assert_close(outputs["encoder_outputs"][0], run(encoder, x, other[0]))


def test_padding_may_have_another_id():
    encoder = build(make(pad_token_id=9))
    ids = np.array([[9, 5, 9, 9], [5, 6, 0, 0], [5, 9, -1, 9]])
    mask = [[True, True, False, False], [True] * 4, [True, True, False, False]]
    np.testing.assert_array_equal(numpy(encoder(ids)["encoder_mask"]), mask)
    assert encoder.get_config()["pad_token_id"] == 9


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_and_other_sentences_change_nothing(name):
    encoder = build(ENCODERS[name]())
    outputs = numpy(encoder(IDS))["encoder_outputs"]
    longer = numpy(encoder(np.pad(IDS, [(0, 0), (0, 2)])))["encoder_outputs"][:, :5]
    assert_close(longer[MASK], outputs[MASK])
    assert_close(numpy(encoder(IDS[1:, :2]))["encoder_outputs"][0], outputs[1, :2])


GOOD = {
    "rotary, rms, swiglu": lambda: make(
        {
            "normalization": "rms",
            "activation": "swiglu",
            "use_bias": False,
            "rotary": RotaryPositions(),
        },
        num_layers=1,
        scale_embedding=True,
        embedding_norm=True,
    ),
    "learned, relative": lambda: make(
        {"use_bias": False},
        positions=LearnedPositions(5),
        position_bias=RelativePositionBias(2, 4, max_distance=2),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_is_a_good_layer(name):
    check_layer(GOOD[name], {"inputs": IDS})


def test_is_a_good_layer_for_vectors():
    check_layer(
        lambda: make(
            {"use_bias": False}, embedding=False, num_layers=1, position_bias=AlibiBias(2)
        ),
        {"inputs": FEATURES, "mask": MASK},
    )


def test_only_a_pre_norm_stack_has_a_norm_at_its_end():
    assert "final_norm" in weights_of(build(make()))["stack"]
    assert "final_norm" not in weights_of(build(make({"normalize_first": False})))["stack"]


def test_each_layer_has_weights_and_dropout_of_its_own():
    encoder = make({"dropout": 0.5, "seed": 3}, embedding=False)
    encoder(FEATURES)
    one, other = encoder.stack.blocks
    assert (
        numpy(one.self_attention.query_kernel) != numpy(other.self_attention.query_kernel)
    ).any()
    ones = np.ones((2, 5, 8), "float32")
    kept, kept_by_other = (
        numpy(block.residual_dropout(ones, training=True)) for block in (one, other)
    )
    assert (kept != kept_by_other).any()


def test_a_seed_makes_the_same_dropout_which_is_off_outside_of_training():
    def outputs(**call):
        encoder = build(make({"dropout": 0.5, "seed": 3}, dropout=0.5, seed=3))
        return numpy(encoder(IDS, **call))["encoder_outputs"]

    assert_close(outputs(training=True), outputs(training=True))
    assert np.abs(outputs(training=True) - outputs()).max() > 0.1
    assert_close(outputs(), numpy(build(make())(IDS))["encoder_outputs"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, "num_layers to be a positive integer. Received: num_layers=0"),
        ({"dropout": 1.0}, r"dropout to be in \[0, 1\). Received: dropout=1.0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerEncoder(TransformerEncoderBlock(2, 12), **arguments)


def test_positions_of_other_kinds_are_refused():
    block = TransformerEncoderBlock(2, 12)
    with pytest.raises(ValueError, match="positions to be a layer.*'sinusoidal'"):
        TransformerEncoder(block, None, num_layers=1, positions="sinusoidal")
    with pytest.raises(ValueError, match="number of heads of the block. Received: .*=1, .*=2"):
        TransformerEncoder(block, None, num_layers=1, position_bias=AlibiBias(1))
    with pytest.raises(ValueError, match="rotary to be a RotaryPositions layer or None.*True"):
        TransformerEncoderBlock(2, 12, rotary=True).build((None, None, 8))


def test_inputs_are_checked():
    with pytest.raises(ValueError, match=r"shape \(batch, time\). Received: .* \(2, 5, 8\)"):
        make()(FEATURES)
    with pytest.raises(ValueError, match=r"shape \(batch, time, features\). Received: .* \(2, 5\)"):
        make(embedding=False)(IDS)


def test_large_ids_given_as_floats_are_not_rounded_in_half_precision():
    with precision("mixed_float16"):
        block = TransformerEncoderBlock(2, 12)
        encoder = TransformerEncoder(block, keras.layers.Embedding(5000, 8), num_layers=1)
    ids = np.array([[4097, 4099]], "int32")
    encoder(ids)
    randomize(encoder)
    expected = numpy(encoder(ids)["encoder_outputs"])
    assert_close(numpy(encoder(ids.astype("float32"))["encoder_outputs"]), expected)


def test_padding_is_told_by_its_id_not_by_a_mask_of_the_embedding():
    block = TransformerEncoderBlock(2, 12)
    sides = []
    for mask_zero in (False, True):
        embedding = keras.layers.Embedding(10, 8, mask_zero=mask_zero)
        sides.append(TransformerEncoder(block, embedding, num_layers=2, pad_token_id=9))
        sides[-1](IDS)
    randomize(sides[0])
    sides[1].set_weights(sides[0].get_weights())
    expected, found = (numpy(side(IDS)) for side in sides)
    assert_close(found, expected)


TYPES = np.array([[0, 1, 1, 0, 2], [1, 2, 0, 0, 0]], "int32")


def with_types(**stack):
    return make(token_types=keras.layers.Embedding(3, 8), embedding_norm=True, **stack)


def test_token_types_are_added_to_the_embeddings():
    encoder = build(with_types(scale_embedding=True))
    types, ids = numpy(encoder.token_types.embeddings), numpy(encoder.embedding.embeddings)
    vectors = ids[IDS] + types[TYPES] / 8**0.5  # the types are not scaled
    plain = make(embedding=False, embedding_norm=True, scale_embedding=True)
    plain(FEATURES)
    plain.stack.set_weights([weight for weight in encoder.stack.get_weights()][1:])
    expected = numpy(plain(vectors, mask=MASK)["encoder_outputs"])
    found = numpy(encoder(IDS, token_type_ids=TYPES)["encoder_outputs"])
    assert_close(found[MASK], expected[MASK])
    assert_close(
        numpy(encoder(IDS)["encoder_outputs"]),
        numpy(encoder(IDS, token_type_ids=np.zeros_like(IDS))["encoder_outputs"]),
    )


def test_token_types_are_a_good_layer():
    inputs = {"inputs": IDS, "token_type_ids": TYPES}
    check_layer(with_types, inputs)


def test_token_types_need_an_embedding():
    with pytest.raises(ValueError, match="no token_type_ids, because the encoder has no"):
        make()(IDS, token_type_ids=TYPES)
    with pytest.raises(ValueError, match="token_types to be a Keras layer"):
        make(token_types=3)
