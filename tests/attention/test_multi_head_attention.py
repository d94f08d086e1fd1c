from functools import partial

import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AlibiBias,
    CacheView,
    MultiHeadAttention,
    RelativePositionBias,
    RotaryPositions,
    TransformerEncoderBlock,
)
from keras_attn._decoding_state import kv_cache
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.transformer_oracles import multi_head_attention, weights_of

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(2, 6, 8)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 5, 7)).astype("float32")
KEY = GENERATOR.normal(size=(2, 5, 3)).astype("float32")
PADDING = np.array([[True] * 3 + [False] * 3, [True] * 6])
VALUE_PADDING = np.array([[True] * 2 + [False] * 3, [True] * 5])
CAUSAL = np.tril(np.ones((6, 6), bool))


def random_mask(*shape):
    """With something to attend to for every query."""
    mask = GENERATOR.random(shape) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    return mask


def build(layer, *inputs, **arguments):
    layer(*inputs, **arguments)
    return randomize(layer)


def keras_layer_and_ours(arguments, *inputs):
    """The layer of Keras with random weights, and ours with the same."""
    theirs = keras.layers.MultiHeadAttention(2, 4, **arguments)
    # Without scores to return, Keras on JAX has no value_dim.
    build(theirs, *inputs, return_attention_scores=True)
    ours = MultiHeadAttention(2, 4, **arguments)
    ours(*inputs)
    pairs = zip(theirs.get_weights(), ours.get_weights(), strict=True)
    ours.set_weights([weight.reshape(own.shape) for weight, own in pairs])
    return theirs, ours


# Arguments of the layer, inputs, arguments of the call.
AS_IN_KERAS = {
    "self-attention": ({}, (X, X), {}),
    "cross-attention": ({}, (X, VALUE), {}),
    "keys of their own": ({}, (X, VALUE, KEY), {}),
    "value size": ({"value_dim": 3}, (X, VALUE, KEY), {}),
    "output size": ({"output_shape": 5, "value_dim": 3}, (X, VALUE), {}),
    "no bias": ({"use_bias": False}, (X, VALUE, KEY), {}),
    "gate": ({"use_gate": True}, (X, VALUE), {}),
    "gate, value size": ({"use_gate": True, "value_dim": 3}, (X, VALUE, KEY), {}),
    "gate, no bias": ({"use_gate": True, "use_bias": False}, (X, X), {}),
    "window": ({"sliding_window": 2}, (X, X), {}),
    "causal": ({}, (X, X), {"use_causal_mask": True}),
    "causal window": ({"sliding_window": 3}, (X, X), {"use_causal_mask": True}),
    "causal, to fewer keys": ({}, (X, VALUE), {"use_causal_mask": True}),
    "mask": ({}, (X, VALUE), {"attention_mask": random_mask(2, 6, 5)}),
    "mask of all heads": ({}, (X, VALUE), {"attention_mask": random_mask(2, 1, 6, 5)}),
    "mask of each head": ({}, (X, VALUE, KEY), {"attention_mask": random_mask(2, 2, 6, 5)}),
    "mask, causal window": (
        {"sliding_window": 4},
        (X, X),
        {"use_causal_mask": True, "attention_mask": random_mask(2, 6, 6) | np.eye(6, dtype=bool)},
    ),
}


IMAGE = GENERATOR.normal(size=(2, 3, 4, 8)).astype("float32")
VIDEO = GENERATOR.normal(size=(2, 3, 2, 4, 8)).astype("float32")
WIDER = GENERATOR.normal(size=(2, 3, 5, 7)).astype("float32")
OVER_AXES = {
    "all": ({}, (IMAGE, IMAGE), {}),
    "all, of another size": ({}, (IMAGE, WIDER), {}),
    "rows": ({"attention_axes": 2}, (IMAGE, WIDER), {}),
    "columns": ({"attention_axes": (1,), "value_dim": 3}, (IMAGE, IMAGE), {}),
    "two of three": ({"attention_axes": (1, 3), "output_shape": 5}, (VIDEO, VIDEO), {}),
    "in another order": ({"attention_axes": (3, 1)}, (VIDEO, VIDEO), {}),
    "mask of all": ({}, (IMAGE, WIDER), {"attention_mask": random_mask(2, 3, 4, 3, 5)}),
    "mask of rows": (
        {"attention_axes": 2},
        (IMAGE, WIDER),
        {"attention_mask": random_mask(2, 4, 5)},
    ),
    "mask of each row": (
        {"attention_axes": 2},
        (IMAGE, WIDER),
        {"attention_mask": random_mask(2, 3, 4, 5)},
    ),
    "mask of each head": (
        {"attention_axes": 2},
        (IMAGE, WIDER),
        {"attention_mask": random_mask(2, 3, 2, 4, 5)},
    ),
    "mask of all queries": (
        {"attention_axes": 2},
        (IMAGE, WIDER),
        {"attention_mask": random_mask(2, 1, 5)},
    ),
    "causal": ({"attention_axes": 1}, (IMAGE, IMAGE), {"use_causal_mask": True}),
}


NAMES = [*AS_IN_KERAS, *(f"over axes: {name}" for name in OVER_AXES)]


@pytest.mark.parametrize("case", [*AS_IN_KERAS.values(), *OVER_AXES.values()], ids=NAMES)
def test_equals_the_layer_of_keras(case):
    arguments, inputs, call = case
    theirs, ours = keras_layer_and_ours(arguments, *inputs)
    expected = numpy(theirs(*inputs, **call, return_attention_scores=True))
    assert_close(numpy(ours(*inputs, **call, return_attention_scores=True)), expected)
    assert_close(numpy(ours(*inputs, **call)), expected[0])


def test_padding_of_higher_ranks_hides_what_is_padded():
    layer = build(MultiHeadAttention(2, 4), IMAGE, WIDER)
    padding = np.ones(WIDER.shape[:3], bool)
    padding[:, :, 3:] = False
    assert_close(
        numpy(layer(IMAGE, WIDER, value_mask=padding)), numpy(layer(IMAGE, WIDER[:, :, :3]))
    )


def test_attention_over_axes_is_a_good_layer():
    padding = np.ones(IMAGE.shape[:3], bool)
    padding[0, :, 2:] = False
    inputs = {"query": IMAGE, "value": IMAGE, "key": IMAGE + 1, "value_mask": padding}
    check_layer(lambda: MultiHeadAttention(2, 4, attention_axes=2, use_gate=True), inputs)


def test_a_mask_without_the_attended_axes_is_refused():
    layer = MultiHeadAttention(2, 4, attention_axes=2)
    with pytest.raises(ValueError, match=r"attention_mask to end with .* with shape \(4, 5\)"):
        layer(IMAGE, WIDER, attention_mask=np.ones((4, 5), bool))


@pytest.mark.parametrize("flash_attention", [None, True])
@pytest.mark.parametrize(
    "names", [("query", "value"), ("query", "value", "key"), ("value",), ("key",)]
)
def test_implicit_masks_count_as_in_keras(names, flash_attention):
    value, key = np.where(VALUE_PADDING[:, :, None], VALUE, 0), VALUE[::-1]
    theirs, ours = keras_layer_and_ours({}, X, value, key)
    config = {**ours.get_config(), "flash_attention": flash_attention}
    blockwise = MultiHeadAttention.from_config(config)
    blockwise(X, value, key)
    blockwise.set_weights(ours.get_weights())
    inputs = {
        "query": np.where(PADDING[:, :, None], X, 0),
        "value": value,
        "key": np.where(VALUE_PADDING[:, :, None], key, 0),
    }
    masking = keras.layers.Masking()
    inputs = {name: masking(x) if name in names else x for name, x in inputs.items()}
    real = PADDING if "query" in names else np.full_like(PADDING, True)
    received = numpy(blockwise(**inputs))
    # The layer of Keras takes the masks off its inputs.
    assert_close(received[real], numpy(theirs(**inputs))[real])


@pytest.mark.parametrize("explicit", [False, True], ids=["mask alone", "with another mask"])
def test_the_implicit_mask_of_self_attention_hides_its_keys(explicit):
    layer = build(MultiHeadAttention(2, 4), X)
    inputs = np.where(PADDING[:, :, None], X, 0)
    call = {"attention_mask": CAUSAL[None]} if explicit else {}
    expected = PADDING[:, None] & (CAUSAL if explicit else np.ones((6, 6), bool))
    received = numpy(layer(keras.layers.Masking()(inputs), **call))
    assert_close(received, numpy(layer(inputs, attention_mask=expected)))


@pytest.mark.parametrize("use_gate", [False, True])
def test_a_model_learns_as_with_the_layer_of_keras(use_gate):
    """The same output, mask of the output and step of training in a functional model."""
    ids = np.array([[3, 4, 5, 0, 0], [3, 5, 4, 3, 4]])
    targets = GENERATOR.normal(size=(2, 8)).astype("float32")

    def model(kind):
        inputs = keras.Input((None,), dtype="int32")
        vectors = keras.layers.Embedding(6, 8, mask_zero=True)(inputs)
        outputs = kind(2, 4, use_gate=use_gate)(vectors, vectors, use_causal_mask=True)
        model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(outputs))
        model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False)
        return model

    theirs, ours = model(keras.layers.MultiHeadAttention), model(MultiHeadAttention)
    randomize(theirs)
    pairs = zip(theirs.get_weights(), ours.get_weights(), strict=True)
    ours.set_weights([weight.reshape(own.shape) for weight, own in pairs])
    assert_close(numpy(ours(ids)), numpy(theirs(ids)))
    ours.train_on_batch(ids, targets)
    theirs.train_on_batch(ids, targets)
    for own, weight in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        assert_close(own, weight.reshape(own.shape))


def test_one_input_is_query_value_and_key():
    layer = build(MultiHeadAttention(2, 4), X)
    assert_close(numpy(layer(X)), numpy(layer(X, X.copy(), X.copy())))


BIAS = GENERATOR.normal(size=(2, 4, 6, 6)).astype("float32")
# Arguments of the layer, arguments of the oracle.
HEADS = {
    "two query heads to a key head": ({"num_key_value_heads": 2}, {"num_groups": 2}),
    "multi-query, value size": ({"num_key_value_heads": 1, "value_dim": 3}, {"num_groups": 1}),
    "grouped, gate, no bias": (
        {"num_key_value_heads": 2, "use_gate": True, "use_bias": False},
        {"num_groups": 2},
    ),
    "rotary": ({"rotary": RotaryPositions()}, {"rotate": position_oracles.rotary}),
    "rotary interleaved, grouped": (
        {"rotary": RotaryPositions(layout="interleaved"), "num_key_value_heads": 2},
        {"rotate": partial(position_oracles.rotary, layout="interleaved"), "num_groups": 2},
    ),
}


@pytest.mark.parametrize("biased", [False, True], ids=["without bias", "with bias"])
@pytest.mark.parametrize("name", HEADS)
def test_equals_the_equations(name, biased):
    arguments, own = HEADS[name]
    layer = build(MultiHeadAttention(4, 6, **arguments), X)
    call = {"position_bias": BIAS} if biased else {}
    received = layer(X, **call, attention_mask=PADDING, return_attention_scores=True)
    outputs, weights = numpy(received)
    for b in range(2):
        mask, bias = PADDING[b], BIAS[b] if biased else 0.0
        expected = multi_head_attention(X[b], weights_of(layer), 4, mask=mask, bias=bias, **own)
        assert_close((outputs[b], weights[b]), expected)


@pytest.mark.parametrize("name", ["two query heads to a key head", "multi-query, value size"])
def test_grouped_cross_attention_equals_the_equations(name):
    arguments, own = HEADS[name]
    layer = build(MultiHeadAttention(4, 6, **arguments), X, VALUE, KEY)
    outputs = numpy(layer(X, VALUE, KEY, attention_mask=VALUE_PADDING))
    for b in range(2):
        expected, _ = multi_head_attention(
            X[b], weights_of(layer), 4, VALUE[b], KEY[b], mask=VALUE_PADDING[b], **own
        )
        assert_close(outputs[b], expected)


@pytest.mark.parametrize("make", [AlibiBias, RelativePositionBias])
def test_a_layer_makes_the_position_bias(make):
    bias = randomize(build(make(2), np.arange(6)[None], np.arange(6)[None]))
    layer = build(MultiHeadAttention(2, 4), X)
    positions = np.arange(6)
    if make is AlibiBias:
        expected = position_oracles.alibi_bias(2, positions, positions)
    else:
        expected = position_oracles.t5_bias(numpy(bias.embeddings), positions, positions)
    outputs = numpy(layer(X, position_bias=bias))
    assert_close(outputs[0], multi_head_attention(X[0], weights_of(layer), 2, bias=expected)[0])
    # Both depend on distances alone.
    for start_index in (7, np.array([3, 9], "int32")):
        assert_close(numpy(layer(X, position_bias=bias, start_index=start_index)), outputs)


def test_a_bias_is_asked_for_the_positions_from_the_start_index_on():
    asked = []

    def bias(queries, keys):
        asked.extend([numpy(queries).tolist(), numpy(keys).tolist()])
        return np.zeros((1, 1, 6, 6), "float32")

    build(MultiHeadAttention(2, 4), X)(X, position_bias=bias, start_index=5)
    assert [np.squeeze(positions).tolist() for positions in asked] == [[5, 6, 7, 8, 9, 10]] * 2


def test_rotary_positions_are_told_the_start_index():
    layer, started = build(MultiHeadAttention(2, 4, rotary=RotaryPositions()), X), []
    rotate = layer.rotary.call

    def call(*arguments, start_index=0):
        started.append(start_index)
        return rotate(*arguments, start_index=start_index)

    layer.rotary.call = call
    layer(X, start_index=5)
    assert [int(start) for start in started] == [5, 5]


@pytest.mark.parametrize("start_index", [5, np.array([2, 30], "int32")])
@pytest.mark.parametrize("flash_attention", [None, True])
def test_a_start_index_changes_nothing_where_distances_alone_count(flash_attention, start_index):
    layer = build(
        MultiHeadAttention(
            2, 4, sliding_window=3, rotary=RotaryPositions(), flash_attention=flash_attention
        ),
        X,
    )
    outputs = numpy(layer(X, use_causal_mask=True, start_index=start_index))
    assert_close(outputs, numpy(layer(X, use_causal_mask=True)))


FLASH = {
    "plain": ({}, {}),
    "causal": ({}, {"use_causal_mask": True}),
    "window": ({"sliding_window": 2}, {}),
    "padding": ({}, {"attention_mask": PADDING}),
    "grouped, causal, padding": (
        {"num_key_value_heads": 1, "value_dim": 3},
        {"use_causal_mask": True, "attention_mask": PADDING},
    ),
    "rotary, gate, causal window": (
        {"rotary": RotaryPositions(), "sliding_window": 3, "use_gate": True},
        {"use_causal_mask": True},
    ),
    "alibi": ({}, {"position_bias": AlibiBias(2)}),
}


@pytest.mark.parametrize("name", FLASH)
def test_the_blockwise_form_equals_the_plain_one(name):
    arguments, call = FLASH[name]
    plain = build(MultiHeadAttention(2, 4, **arguments), X)
    blockwise = MultiHeadAttention(2, 4, flash_attention=True, **arguments)
    blockwise(X)
    blockwise.set_weights(plain.get_weights())
    assert_close(numpy(blockwise(X, **call)), numpy(plain(X, **call)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"return_attention_scores": True}, "scores=False with flash_attention=True"),
        ({"attention_mask": random_mask(2, 6, 6)}, r"Expected attention_mask .*shape \(2, 6, 6\)"),
        ({"attention_mask": random_mask(2, 1, 6, 6)}, r"Received: .*shape \(2, 1, 6, 6\)"),
        ({"position_bias": BIAS[:, :2]}, r"Expected position_bias .*shape \(2, 2, 6, 6\)"),
    ],
)
def test_the_blockwise_form_refuses_what_it_has_not(call, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(2, 4, flash_attention=True)(X, **call)
    if "attention_mask" in call:  # beside an implicit mask too
        with pytest.raises(ValueError, match=message):
            MultiHeadAttention(2, 4, flash_attention=True)(X, query_mask=random_mask(2, 6), **call)


STEPS = {
    "plain": ({}, None),
    "grouped, gate, value size": (
        {"num_key_value_heads": 2, "use_gate": True, "value_dim": 3},
        None,
    ),
    "rotary, multi-query": ({"num_key_value_heads": 1, "rotary": RotaryPositions()}, None),
    "window": ({"sliding_window": 2}, None),
    "rotary interleaved, window": (
        {"sliding_window": 3, "rotary": RotaryPositions(layout="interleaved")},
        None,
    ),
    "alibi": ({}, lambda: AlibiBias(4)),
    "relative, window, no bias": (
        {"sliding_window": 3, "use_bias": False},
        lambda: RelativePositionBias(4, 8, max_distance=6, bidirectional=False),
    ),
}


@pytest.mark.parametrize("growing", [True, False], ids=["growing", "fixed"])
@pytest.mark.parametrize("name", STEPS)
def test_cached_steps_equal_the_full_pass(name, growing):
    arguments, make_bias = STEPS[name]
    layer = build(MultiHeadAttention(4, 6, **arguments), X)
    bias = make_bias and randomize(build(make_bias(), np.arange(6)[None], np.arange(6)[None]))
    call = {"use_causal_mask": True, "position_bias": bias}
    outputs, weights = numpy(layer(X, **call, return_attention_scores=True))
    for parts in ((1, 1, 1, 3), (2, 1, 3)):
        cache, slot = layer.new_cache(2, 9, growing), 0
        for new in parts:
            now = slice(slot, slot + new)
            step_outputs, step_weights, cache = layer.step(
                X[:, now], cache, CacheView(np.int32(slot), growing=growing), bias
            )
            slot += new
            assert_close(numpy(step_outputs), outputs[:, now])
            step_weights = numpy(step_weights)
            assert step_weights.shape[3] == (slot if growing else 9)
            assert_close(step_weights[..., :slot], weights[:, :, now, :slot])
            assert not step_weights[..., slot:].any()


@pytest.mark.parametrize("growing", [True, False], ids=["growing", "fixed"])
@pytest.mark.parametrize("make_bias", [None, lambda: AlibiBias(2)], ids=["rotary", "alibi"])
def test_steps_of_rows_that_began_at_other_slots_equal_those_of_each_row(make_bias, growing):
    rotary = RotaryPositions() if make_bias is None else None
    layer = build(MultiHeadAttention(2, 4, rotary=rotary, sliding_window=4), X)
    call = {"position_bias": make_bias and make_bias()}
    first = np.array([2, 0], "int32")  # the slot of the first position; noise is before it
    cache = layer.new_cache(2, 7, growing)
    found = []
    for slot, new in ((0, 4), (4, 1), (5, 1)):
        slots = np.arange(slot + new if growing else 7, dtype="int32")
        view = CacheView(np.int32(slot), slot - first, slots - first[:, None], growing=growing)
        outputs, weights, cache = layer.step(X[:, slot : slot + new], cache, view, **call)
        assert not numpy(weights)[0, :, :, :2].any()
        found.append(numpy(outputs))
    found = np.concatenate(found, axis=1)
    for b, begin in enumerate(first):
        alone = X[b : b + 1, begin:]
        assert_close(found[b, begin:], numpy(layer(alone, use_causal_mask=True, **call))[0])


@pytest.mark.parametrize("scale", [1.0, 1e5], ids=["", "large features"])
@pytest.mark.parametrize("growing", [True, False], ids=["growing", "fixed"])
@pytest.mark.parametrize("name", STEPS)
def test_beams_that_share_a_cache_see_their_own_tokens(name, growing, scale):
    arguments, make_bias = STEPS[name]
    beams, time = 3, 4
    inputs = (scale * GENERATOR.normal(size=(2 * beams, time, 8))).astype("float32")
    layer = build(MultiHeadAttention(4, 6, **arguments), inputs)
    bias = make_bias and randomize(build(make_bias(), np.arange(6)[None], np.arange(6)[None]))
    expected = numpy(layer(inputs, use_causal_mask=True, position_bias=bias))
    slots = (beams * time, growing)
    own, cache = kv_cache.own_slots(2, beams), layer.new_cache(2, *slots)
    ancestor_bias = kv_cache.new_ancestor_bias(own, *slots)
    for t in range(time):
        slot, slots = np.int32(t * beams), (t + 1 if growing else time) * beams
        ancestor_bias = kv_cache.extend_ancestor_bias(ancestor_bias, own, slot, growing)
        view = CacheView(
            slot,
            start_index=np.int32(t),
            key_positions=np.arange(slots, dtype="int32")[None] // beams,
            ancestor_bias=kv_cache.reshape_ancestor_bias(ancestor_bias, own),
            growing=growing,
            num_beams=beams,
        )
        outputs, weights, cache = layer.step(inputs[:, t], cache, view, bias)
        assert numpy(weights).shape == (2, 4, beams, slots)
        assert_close(numpy(outputs) / scale, expected[:, t] / scale)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("shared_key", [True, False], ids=["value is key", "key"])
def test_a_prepared_memory_serves_all_beams(shared_key, beams):
    inputs = (VALUE,) if shared_key else (VALUE, KEY)
    layer = build(MultiHeadAttention(4, 6, num_key_value_heads=2), X, *inputs)
    queries = GENERATOR.normal(size=(2, beams, 6, 8)).astype("float32")
    memory = layer.prepare_memory(*inputs, attention_mask=VALUE_PADDING)
    assert numpy(memory["keys"]).shape == numpy(memory["values"]).shape == (2, 2, 5, 6)
    outputs, weights = numpy(layer.attend(queries.reshape(2, beams * 6, 8), memory))
    assert outputs.shape == (2, beams * 6, 8) and weights.shape == (2, 4, beams * 6, 5)
    for k in range(beams):
        expected = layer(
            queries[:, k], *inputs, attention_mask=VALUE_PADDING, return_attention_scores=True
        )
        own = slice(6 * k, 6 * k + 6)
        assert_close((outputs[:, own], weights[:, :, own]), numpy(expected))


ONE_EMPTY = VALUE_PADDING & np.array([[False], [True]])  # a sentence without anything to see


@pytest.mark.parametrize(
    "mask",
    [
        None,
        random_mask(2, 6, 5),
        ONE_EMPTY,
        ONE_EMPTY[:, None],
        np.tile(ONE_EMPTY[:, None], (6, 1)),
    ],
    ids=["no mask", "rank 3", "one empty", "one empty, one row", "one empty, rank 3"],
)
def test_a_memory_takes_any_mask(mask):
    layer = build(MultiHeadAttention(2, 4), X, VALUE)
    memory = layer.prepare_memory(VALUE, attention_mask=mask)
    expected = layer(X, VALUE, attention_mask=mask, return_attention_scores=True)
    assert_close(numpy(layer.attend(X, memory)), numpy(expected))


@pytest.mark.parametrize("flash_attention", [None, True])
def test_a_query_that_may_attend_to_nothing_gets_the_bias_of_the_output(flash_attention):
    layer = build(MultiHeadAttention(2, 4, flash_attention=flash_attention), X)
    outputs = numpy(layer(X, attention_mask=PADDING & np.array([[False], [True]])))
    assert_close(outputs[0], np.tile(numpy(layer.output_bias), (6, 1)))
    assert np.ptp(outputs[1], axis=0).min() > 0
    if not flash_attention:
        mask = CAUSAL & ~np.eye(6, dtype=bool)  # the first query alone has nothing to see
        received = layer(X, attention_mask=mask[None], return_attention_scores=True)
        outputs, weights = numpy(received)
        assert_close(outputs[:, 0], np.tile(numpy(layer.output_bias), (2, 1)))
        assert not weights[:, :, 0].any()
        assert_close(weights[:, :, 1:].sum(axis=3), np.ones((2, 2, 5)))


def test_masks_of_other_kinds_of_numbers_and_of_all_ranks_are_one():
    layer = build(MultiHeadAttention(2, 4), X, VALUE)
    expected = numpy(layer(X, VALUE, attention_mask=VALUE_PADDING))
    rank_3 = np.tile(VALUE_PADDING[:, None, :], (1, 6, 1))
    masks = [rank_3, VALUE_PADDING[:, None], VALUE_PADDING[:, None, None], rank_3[:, None]]
    masks += [number * mask for mask in masks for number in (np.int32(1), np.uint8(255))]
    for mask in masks:
        assert_close(numpy(layer(X, VALUE, attention_mask=mask)), expected)


def eyes():
    """A layer whose outputs are the weights, after dropout."""
    layer = MultiHeadAttention(1, 6, dropout=0.5, use_bias=False, output_shape=6, seed=3)
    value = np.tile(np.eye(6, dtype="float32"), (2, 1, 1))
    build(layer, X, value)
    layer.value_kernel.assign(np.eye(6))
    layer.output_kernel.assign(np.eye(6))
    return layer, value


def test_dropout_zeroes_weights_and_scales_the_others_in_training_alone():
    layer, value = eyes()
    outputs, weights = numpy(layer(X, value, training=True, return_attention_scores=True))
    kept = outputs != 0
    assert 0.2 < kept.mean() < 0.8
    assert_close(outputs[kept], 2 * weights[:, 0][kept])
    assert_close(weights.sum(axis=3), np.ones((2, 1, 6)))
    assert_close(numpy(layer(X, value, training=False)), weights[:, 0])
    assert_close(numpy(layer(X, value)), weights[:, 0])


def test_a_seed_makes_the_same_dropout():
    (one, value), (other, _) = eyes(), eyes()
    assert_identical(numpy(one(X, value, training=True)), numpy(other(X, value, training=True)))


def test_is_a_good_layer():
    def layer():
        return MultiHeadAttention(
            4,
            6,
            value_dim=3,
            use_bias=False,
            output_shape=5,
            kernel_initializer="he_normal",
            use_gate=True,
            seed=1,
            num_key_value_heads=2,
        )

    inputs = {"query": X, "value": VALUE, "key": KEY, "attention_mask": VALUE_PADDING}
    masked = {"value": "attention_mask", "key": "attention_mask"}
    check_layer(layer, inputs, masked)


@pytest.mark.parametrize("flash_attention", [None, True])
def test_rotary_self_attention_is_a_good_layer(flash_attention):
    check_layer(
        lambda: MultiHeadAttention(
            2,
            4,
            use_bias=False,
            sliding_window=4,
            flash_attention=flash_attention,
            rotary=RotaryPositions(layout="interleaved"),
        ),
        {"query": X, "attention_mask": PADDING},
    )


def test_regularizers_constraints_and_initializers_reach_the_weights():
    layer = MultiHeadAttention(
        2,
        4,
        bias_initializer="ones",
        kernel_initializer=keras.initializers.Constant(2.0),
        kernel_regularizer=keras.regularizers.L1(1.0),
        bias_regularizer=keras.regularizers.L1(3.0),
        kernel_constraint="non_neg",
        bias_constraint="unit_norm",
    )
    layer(X)
    for weight in layer.weights:
        is_kernel = weight.path.endswith("kernel")
        np.testing.assert_array_equal(numpy(weight), 2.0 if is_kernel else 1.0)
        kind = keras.constraints.NonNeg if is_kernel else keras.constraints.UnitNorm
        assert isinstance(weight.constraint, kind)
    kernels, biases = 4 * 8 * 8 * 2.0, 4 * 8 * 3.0
    assert_close(numpy(sum(layer.losses)), kernels + biases)


def test_symbolic_scores_have_the_shape_of_the_scores():
    layer = MultiHeadAttention(2, 4, output_shape=5)
    query, value = keras.Input((6, 8)), keras.Input((5, 7))
    outputs, weights = layer(query, value, return_attention_scores=True)
    assert outputs.shape == (None, 6, 5) and weights.shape == (None, 2, 6, 5)
    model = keras.Model([query, value], [outputs, weights])
    expected = numpy(layer(X, VALUE, return_attention_scores=True))
    assert_close(tuple(numpy(model([X, VALUE]))), expected)
    _, weights = MultiHeadAttention(2, 4, attention_axes=2)(
        keras.Input((None, 4, 8)), keras.Input((None, 5, 7)), return_attention_scores=True
    )
    assert weights.shape == (None, None, 2, 4, 5)


@pytest.mark.parametrize("growing", [True, False])
def test_half_precision_goes_through_the_cache_with_float32_biases(growing):
    layer = MultiHeadAttention(2, 4, dtype="mixed_float16", rotary=RotaryPositions())
    build(layer, X)
    full = MultiHeadAttention(2, 4, rotary=RotaryPositions())
    full(X)
    full.set_weights(layer.get_weights())
    bias = AlibiBias(2)
    assert numpy(bias(np.arange(6)[None], np.arange(6)[None])).dtype == "float32"
    expected = numpy(full(X, position_bias=bias, use_causal_mask=True))
    outputs = numpy(layer(X, position_bias=bias, use_causal_mask=True))
    assert outputs.dtype == "float16"
    assert_close(outputs, expected, 0.02)
    cache = layer.new_cache(2, 6, growing)
    for t in range(6):
        now = X[:, t : t + 1].astype("float16")
        view = CacheView(np.int32(t), growing=growing)
        step = layer.step(now, cache, view, position_bias=bias)
        outputs, _, cache = step
        assert {str(leaf.dtype) for leaf in tree.flatten(numpy(step))} == {"float16"}
        assert_close(numpy(outputs)[:, 0], expected[:, t], 0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads to be a positive integer. Received: num_heads=0"),
        ({"num_heads": 1.5}, "Received: num_heads=1.5"),
        ({"key_dim": -1}, "key_dim to be a positive integer. Received: key_dim=-1"),
        ({"value_dim": 0}, "value_dim to be a positive integer. Received: value_dim=0"),
        ({"output_shape": 0}, "output_shape to be a positive integer. Received: output_shape=0"),
        ({"sliding_window": 0}, "sliding_window to be .* Received: sliding_window=0"),
        ({"num_key_value_heads": 0}, "to be .* Received: num_key_value_heads=0"),
        ({"num_key_value_heads": 3}, "to divide num_heads. Received: num_key_value_heads=3"),
        ({"dropout": 1.0}, r"dropout to be in \[0, 1\). Received: dropout=1.0"),
        ({"dropout": -0.1}, "Received: dropout=-0.1"),
        ({"dropout": 0.1, "flash_attention": True}, "Received: flash_attention=True, dropout=0.1"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": 4, "key_dim": 4, **arguments})


@pytest.mark.parametrize("name", ["query", "value", "key"])
def test_inputs_have_a_time_axis_and_the_same_rank(name):
    inputs = {"query": X, "value": VALUE, "key": KEY}
    with pytest.raises(ValueError, match=rf"{name} of shape .* Received: {name} with shape"):
        MultiHeadAttention(2, 4)(**{**inputs, name: inputs[name][:, 0]})
    with pytest.raises(ValueError, match="of the same rank. Received: shapes"):
        MultiHeadAttention(2, 4)(**{**inputs, name: inputs[name][:, None]})


@pytest.mark.parametrize("axes", [0, 2, -1, -3, (1, 1), (1, -2)])
def test_attention_axes_are_between_batch_and_features(axes):
    with pytest.raises(ValueError, match="attention_axes to be distinct axes between .* rank 3"):
        MultiHeadAttention(2, 4, attention_axes=axes)(X)


def test_a_mask_of_another_rank_is_refused():
    with pytest.raises(ValueError, match=r"attention_mask of .* with shape \(6,\)"):
        MultiHeadAttention(2, 4)(X, attention_mask=np.ones(6, bool))


def test_rotary_positions_need_heads_of_even_size():
    with pytest.raises(ValueError, match="even head_dim.* Received: head_dim=3"):
        MultiHeadAttention(2, 3, rotary=RotaryPositions())(X)


def test_a_mask_of_the_value_counts_where_the_query_is_the_value():
    layer = MultiHeadAttention(2, 4)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    mask = np.arange(5) < np.array([[2], [4]])
    assert_close(numpy(layer(x, value_mask=mask)), numpy(layer(x, attention_mask=mask)))


@pytest.mark.parametrize("arguments", [{"rotary": RotaryPositions()}, {"sliding_window": 2}])
def test_a_prepared_memory_has_no_positions(arguments):
    layer = MultiHeadAttention(2, 4, **arguments)
    layer.build((None, None, 8))
    with pytest.raises(ValueError, match="Received: rotary="):
        layer.prepare_memory(np.zeros((1, 3, 8), "float32"))


def test_weights_of_a_bias_that_a_functional_model_would_lose():
    inputs = keras.Input((5, 8))
    for layer in (MultiHeadAttention(2, 4), TransformerEncoderBlock(2, 12)):
        with pytest.raises(ValueError, match="pass its output"):
            layer(inputs, position_bias=RelativePositionBias(2))
        layer(inputs, position_bias=AlibiBias(2))  # has none


def test_float16_bias_below_its_range_masks():
    """In float16, -1e9 is minus infinity, so a query without other keys has a context of zeros."""
    bias = np.zeros((1, 1, 6, 6), "float32")
    bias[:, :, 0] = -1e9
    layer = build(MultiHeadAttention(2, 4), X)
    half = MultiHeadAttention(2, 4, dtype="mixed_float16")
    half(X)
    half.set_weights(layer.get_weights())
    received = numpy(half(X, position_bias=bias)).astype("float32")
    assert_close(received, numpy(layer(X, attention_mask=bias > -1)), 5e-3)


def test_takes_a_configuration_of_keras():
    arguments = {"value_dim": 3, "output_shape": 5, "attention_axes": (1,), "use_gate": True}
    config = keras.layers.MultiHeadAttention(2, 4, **arguments, name="its_name").get_config()
    ours = MultiHeadAttention.from_config(config)
    assert ours.name == "its_name" and ours(X, VALUE, KEY).shape == (2, 6, 5)
    assert ours.use_gate and ours.value_dim == 3


@pytest.mark.parametrize("name", ["kernel_initializer", "bias_initializer"])
def test_equal_shapes_do_not_start_with_equal_numbers(name):
    layer = MultiHeadAttention(2, 4, **{name: "random_normal"})
    layer(X)
    kind = name.removesuffix("_initializer")
    query, key = (numpy(getattr(layer, f"{which}_{kind}")) for which in ("query", "key"))
    assert not np.allclose(query, key)


def test_a_function_may_initialize():
    layer = MultiHeadAttention(2, 4, kernel_initializer=keras.ops.ones, bias_initializer=ones)
    layer(X)
    assert numpy(layer.query_kernel).min() == numpy(layer.value_bias).min() == 1


def ones(shape, dtype=None):
    return keras.ops.ones(shape, dtype)


def test_axes_may_be_counted_from_the_end():
    image = GENERATOR.normal(size=(2, 3, 5, 8)).astype("float32")
    layer = build(MultiHeadAttention(2, 4, attention_axes=-2), image)
    other = MultiHeadAttention(2, 4, attention_axes=2)
    other(image)
    other.set_weights(layer.get_weights())
    assert_identical(numpy(layer(image)), numpy(other(image)))


def test_each_time_step_may_attend_on_its_own():
    images = GENERATOR.normal(size=(2, 3, 5, 8)).astype("float32")
    layer = MultiHeadAttention(2, 4, output_shape=(6,))
    inputs = keras.Input(images.shape[1:])
    model = keras.Model(inputs, keras.layers.TimeDistributed(layer)(inputs))
    expected = np.stack([numpy(layer(images[:, step])) for step in range(3)], axis=1)
    assert_close(numpy(model(images)), expected)


@pytest.mark.parametrize("flash_attention", [None, True])
def test_no_queries_have_no_outputs(flash_attention):
    layer = build(MultiHeadAttention(2, 4, flash_attention=flash_attention), X)
    assert layer(X[:, :0], VALUE[:, :, [0] * 8]).shape == (2, 0, 8)


class SharedBias(keras.layers.Layer):
    """One bias for all heads."""

    def call(self, query_positions, key_positions):
        distances = key_positions[:, None, None, :] - query_positions[:, None, :, None]
        return 0.1 * keras.ops.cast(distances, "float32")  # (1, 1, T, S)


def test_the_blockwise_form_takes_one_bias_for_all_heads():
    plain = build(MultiHeadAttention(2, 4), X)
    blockwise = MultiHeadAttention(2, 4, flash_attention=True)
    blockwise(X)
    blockwise.set_weights(plain.get_weights())
    expected = numpy(plain(X, position_bias=SharedBias()))
    assert_close(numpy(blockwise(X, position_bias=SharedBias())), expected)
    assert not np.allclose(expected, numpy(plain(X)))
