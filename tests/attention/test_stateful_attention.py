"""Mechanisms with a state: against their equations, a step at a time, and in a search."""

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CoverageAttention,
    LocalAttention,
    LocationSensitiveAttention,
    LuongAttention,
    MonotonicAttention,
    RNNDecoder,
    StatefulAttention,
    masks,
)
from keras_attn.testing import check_decoder, check_layer, check_search
from tests import oracles
from tests.backend import precision, requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.slow_cases import all_slow_but

GENERATOR = np.random.default_rng(0)
QUERY = GENERATOR.normal(size=(2, 4, 4)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 6, 4)).astype("float32")
KEY = GENERATOR.normal(size=(2, 6, 4)).astype("float32")
MASK = np.array([[True, True, True, True, False, False], [True, False, True, True, True, False]])

MECHANISMS = {
    "location-sensitive": lambda: LocationSensitiveAttention(5, filters=3, kernel_size=3),
    "location-sensitive, wide and even": lambda: LocationSensitiveAttention(
        5, filters=2, kernel_size=8, cumulative=True
    ),
    "coverage": lambda: CoverageAttention(5),
    "monotonic, parallel": lambda: MonotonicAttention(BahdanauAttention(5), score_bias=-0.5),
    "monotonic, recursive": lambda: MonotonicAttention(LuongAttention("general"), "recursive"),
    "monotonic, hard": lambda: MonotonicAttention(BahdanauAttention(5), "hard"),
    "local, monotonic": lambda: LocalAttention(
        LuongAttention("general"), window=1, alignment="monotonic"
    ),
}
# A choice has no gradient.
WITHOUT_GRADIENT = {"monotonic, hard": ("query_kernel", "key_kernel", "vector", "bias")}


FAST_ON_JAX = ["location-sensitive, wide and even", "monotonic, hard"]


@pytest.fixture(params=all_slow_but(*MECHANISMS, cases=MECHANISMS, on_jax=FAST_ON_JAX))
def name(request):
    return request.param


def built(name):
    layer = MECHANISMS[name]()
    layer(QUERY, VALUE, KEY)
    return randomize(layer)


def attend(layer, mask=MASK):
    return numpy(layer(QUERY, VALUE, KEY, attention_mask=mask, return_attention_scores=True))


def expected(layer, b):
    """Contexts and weights of sentence b, by the oracles."""
    if isinstance(layer, MonotonicAttention):
        scores = numpy(layer.mechanism.compute_scores(QUERY, layer.mechanism.project_keys(KEY)))
        scores = scores[b] + numpy(layer.bias)
        oracle = oracles.monotonic_hard if layer.mode == "hard" else oracles.monotonic
        weights = oracle(scores, MASK[b])
        return weights @ VALUE[b], weights
    if isinstance(layer, LocalAttention):
        scores = oracles.luong_general_scores(QUERY[b], KEY[b], numpy(layer.mechanism.key_kernel))
        last = MASK[b].nonzero()[0][-1]
        near = abs(np.arange(6) - np.minimum(np.arange(4), last)[:, None]) <= layer.window
        return oracles.attend(scores, VALUE[b], MASK[b] & near)
    filters = None
    if isinstance(layer, LocationSensitiveAttention):
        filters, features = numpy(layer.filter_kernel)[:, 0], layer.feature_kernel
    else:
        features = layer.coverage_kernel
    return oracles.location_sensitive(
        QUERY[b],
        KEY[b],
        VALUE[b],
        MASK[b],
        numpy([layer.query_kernel, layer.key_kernel, features]),
        numpy(layer.vector)[:, 0],
        numpy(layer.bias),
        filters,
        layer.cumulative,
    )


def test_equals_the_equations(name):
    layer = built(name)
    contexts, weights = attend(layer)
    for b in range(2):
        assert_close((contexts[b], weights[b]), expected(layer, b))
    assert (weights[~np.broadcast_to(MASK[:, None], weights.shape)] == 0).all()


def test_is_a_good_layer(name):
    if keras.backend.backend() == "torch" and name == "monotonic, hard":
        pytest.skip("PyTorch cannot compute the gradient of a loss that depends on no weight")
    inputs = {"query": QUERY, "value": VALUE, "key": KEY, "attention_mask": MASK}
    check_layer(
        MECHANISMS[name],
        inputs,
        masked={"value": "attention_mask", "key": "attention_mask"},
        without_gradient=WITHOUT_GRADIENT.get(name, ()),
    )


def test_padding_changes_nothing(name):
    layer = built(name)
    contexts, weights = attend(layer)
    pad = ((0, 0), (0, 9), (0, 0))
    padded = numpy(
        layer(
            QUERY,
            np.pad(VALUE, pad, constant_values=7.0),
            np.pad(KEY, pad, constant_values=7.0),
            attention_mask=np.pad(MASK, pad[:2]),
            return_attention_scores=True,
        )
    )
    assert_close(padded, (contexts, np.pad(weights, pad[:1] + ((0, 0), (0, 9)))))


def test_what_may_attend_to_nothing_gets_zeros(name):
    contexts, weights = attend(built(name), np.zeros_like(MASK))
    assert (weights == 0).all() and (contexts == 0).all()


def test_a_mask_for_each_query(name):
    mask = np.repeat(MASK[:, None], 4, axis=1)
    mask[:, 1] = False
    layer = built(name)
    contexts, weights = attend(layer, mask)
    assert (contexts[:, 1] == 0).all() and (weights[~mask] == 0).all()
    assert_close((contexts[:, 0], weights[:, 0]), [each[:, 0] for each in attend(layer)])


def test_steps_of_beams_equal_a_call(name):
    """Each beam has a state of its own, and beams that change places take it along."""
    layer = built(name)
    memory = layer.prepare_memory(VALUE, KEY, MASK)
    other = GENERATOR.normal(size=QUERY.shape).astype("float32")
    wanted = [numpy(layer.attend(each, memory)) for each in (QUERY, other)]
    state = layer.initial_state(memory, 4)
    for t in range(4):
        queries = [QUERY[:, t], other[:, t]]
        swapped = t % 2
        query = np.stack(queries[::-1] if swapped else queries, axis=1).reshape(4, 4)
        *received, state = layer.attend_step(query, memory, state)
        for own, both in zip(numpy(received), zip(*wanted, strict=True), strict=True):
            both = [each[:, t] for each in both]
            both = np.stack(both[::-1] if swapped else both, axis=1)
            assert_close(own, both.reshape(4, -1))
        state = tree.map_structure(lambda leaf: numpy(leaf)[[1, 0, 3, 2]], state)


def test_masked_steps_leave_the_state_as_it_is(name):
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(4), MECHANISMS[name]()))
    target_mask = np.array([[False, True, False, True], [True, True, True, False]])
    outputs = numpy(layer(QUERY, VALUE, MASK, mask=target_mask))
    for b, real in enumerate(target_mask):
        short = numpy(layer(QUERY[b : b + 1, real], VALUE[b : b + 1], MASK[b : b + 1]))
        assert_close(outputs[b : b + 1, real], short)


def test_a_sum_of_weights_keeps_small_ones_in_half_precision():
    layer = CoverageAttention(5, dtype="mixed_float16")
    value = np.ones((1, 1000, 4), "float16")
    layer(QUERY[:1], value)
    memory = layer.prepare_memory(value)
    state = tree.map_structure(lambda leaf: leaf + 4.0, layer.initial_state(memory, 1))
    *_, state = layer.attend_step(QUERY[:1, 0], memory, state)
    np.testing.assert_allclose(numpy(state["alignments"]), 4.001, atol=1e-5)


@requires_tensorflow("the gradient is taken with a TensorFlow tape")
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in WITHOUT_GRADIENT])
def test_gradients_equal_finite_differences(name):
    import tensorflow as tf

    layer = built(name)
    query, value = tf.constant(QUERY), tf.constant(VALUE)
    towards = [GENERATOR.normal(size=each.shape).astype("float32") for each in (QUERY, VALUE)]
    target = GENERATOR.normal(size=QUERY.shape).astype("float32")

    def loss(query, value):
        return tf.reduce_sum(layer(query, value, attention_mask=MASK) * target)

    with tf.GradientTape() as tape:
        tape.watch([query, value])
        total = loss(query, value)
    gradients = tape.gradient(total, [query, value])
    slope = sum(np.sum(numpy(g) * d) for g, d in zip(gradients, towards, strict=True))
    step = 5e-3
    ends = [
        float(loss(query + sign * step * towards[0], value + sign * step * towards[1]))
        for sign in (1, -1)
    ]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=2e-2, atol=2e-2)


def make_decoder(name, units=4):
    attention = MECHANISMS[name]()
    cell = AttentionRNNCell(keras.layers.GRUCell(units), attention, input_feeding=False)
    return RNNDecoder(cell, keras.layers.Embedding(7, 3), head=keras.layers.Dense(7), bridge="zero")


def test_is_a_good_decoder(name):
    encoded = {"encoder_outputs": VALUE, "encoder_mask": MASK}
    token_ids = np.array([[1, 5, 3, 6, 2], [1, 4, 4, 3, 2]], "int32")
    sum_to_one = not name.startswith("monotonic")
    check_decoder(lambda: make_decoder(name), encoded, token_ids, sum_to_one=sum_to_one)


SEARCHED = ["location-sensitive", "monotonic, hard", "local, monotonic"]


@pytest.mark.parametrize("name", all_slow_but("local, monotonic", cases=SEARCHED))
def test_is_searched_with(name):
    def make():
        cell = AttentionRNNCell(keras.layers.GRUCell(4), MECHANISMS[name](), attention_units=4)
        return RNNDecoder(
            cell, keras.layers.Embedding(5, 3), head=keras.layers.Dense(5), bridge="zero"
        )

    check_search(make, {"encoder_outputs": VALUE, "encoder_mask": MASK})


def test_the_parallel_form_is_exact_where_nothing_is_sure():
    layer = built("monotonic, parallel")
    weights = attend(layer)[1]
    layer.mode = "recursive"
    assert_close(attend(layer)[1], weights)


def test_monotonic_attention_stays_finite_where_all_is_sure():
    layer = built("monotonic, parallel")
    randomize(layer, scale=200.0)
    weights = attend(layer)[1]
    assert np.isfinite(weights).all() and (weights >= 0).all()
    assert (weights.sum(axis=-1) < 1.0 + 1e-5).all()


def test_noise_is_for_training_only():
    cell = AttentionRNNCell(
        keras.layers.GRUCell(4), MonotonicAttention(BahdanauAttention(5), sigmoid_noise=2.0, seed=3)
    )
    layer = AttentionRNN(cell)

    def weights(training):
        arguments = {"return_attention_scores": True, "training": training}
        return numpy(layer(QUERY, VALUE, **arguments)[1])

    assert_identical(weights(False), weights(False))
    first, second = weights(True), weights(True)
    assert (first != second).any() and (first != weights(False)).any()
    assert (first <= 1).all() and (first >= 0).all()


def test_the_noise_of_each_step_is_its_own():
    layer = MonotonicAttention(BahdanauAttention(5), sigmoid_noise=1.0)
    layer(QUERY, VALUE)
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape))
    query = np.repeat(QUERY, 50, axis=1)
    value = np.ones((2, 1, 4), "float32")
    model = keras.Model(
        inputs := [keras.Input((None, 4)), keras.Input((None, 4))],
        layer(*inputs, return_attention_scores=True),
    )
    weights = numpy(model([query, value], training=True)[1])[:, 0, 0]  # sigmoid of the noise
    assert 0 < weights[0] != weights[1]
    first_two = numpy(model([query[:, :2], value], training=True)[1])[0, :, 0]
    # With one position, a_t = p_t a_{t-1}: what is left of a step is its own probability.
    assert abs(first_two[1] / first_two[0] - first_two[0]) > 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MonotonicAttention(BahdanauAttention(5), "soft"), "mode to be one of .*'soft'"),
        (lambda: MonotonicAttention("luong"), "mechanism to be an AttentionMechanism"),
        (lambda: MonotonicAttention(CoverageAttention(5)), "mechanism to be an AttentionMech"),
        (
            lambda: MonotonicAttention(LuongAttention(), sigmoid_noise=-1.0),
            "sigmoid_noise to be a finite number of at least 0",
        ),
        (
            lambda: MonotonicAttention(LuongAttention(), probability_fn="sparsemax"),
            "for monotonic attention. Received: probability_fn='sparsemax'",
        ),
        (
            lambda: LocalAttention(LuongAttention(), alignment="m"),
            "alignment to be one of .* Received: alignment='m'",
        ),
        (lambda: LocalAttention(CoverageAttention(5)), "mechanism to be an AttentionMechanism"),
        (lambda: LocationSensitiveAttention(0), "units to be a positive integer"),
        (lambda: LocationSensitiveAttention(5, filters=0), "filters to be a positive integer"),
        (lambda: LocationSensitiveAttention(5, kernel_size=-1), "kernel_size to be a positive"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class CountsSteps(StatefulAttention):
    """Dot-product attention that counts the steps, without `probability_fn`."""

    def initial_state(self, memory, rows, max_steps=None):
        return {"steps": ops.zeros((rows, 1))}

    def attend_once(self, query, memory, state):
        scores = ops.matmul(query, ops.transpose(memory["keys"], (0, 2, 1)))
        weights = self.weigh(scores, memory["mask"])
        return weights, {"steps": state["steps"] + 1}

    def weigh(self, scores, mask):
        return masks.masked_softmax(scores, mask)


class WeightedByProbabilityFn(CountsSteps):
    uses_probability_fn = True

    def weigh(self, scores, mask):
        return self.compute_weights(scores, mask)


def test_probability_fn_that_the_class_does_not_use_is_an_error():
    message = (
        'Expected probability_fn="softmax" for CountsSteps, which does not use.* Received: '
        "probability_fn='sparsemax'.*self.compute_weights.*uses_probability_fn = True"
    )
    with pytest.raises(ValueError, match=message):
        CountsSteps(probability_fn="sparsemax")
    layer = CountsSteps()
    layer(QUERY, VALUE)
    layer.probability_fn = "sparsemax"
    with pytest.raises(ValueError, match=message):
        layer(QUERY, VALUE)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "hardmax"])
def test_compute_weights_uses_probability_fn(name):
    """The state of the mechanism changes nothing, so that dot-product attention is the oracle."""
    arguments = {"attention_mask": MASK, "return_attention_scores": True}
    expected = LuongAttention("dot", probability_fn=name)(QUERY, VALUE, **arguments)
    assert_close(
        numpy(WeightedByProbabilityFn(probability_fn=name)(QUERY, VALUE, **arguments)),
        numpy(expected),
    )


def test_what_must_be_overridden():
    class Unfinished(StatefulAttention):
        pass

    with pytest.raises(NotImplementedError, match="Unfinished must override `initial_state`"):
        Unfinished()(QUERY, VALUE)


def test_beyond_the_source_the_local_window_stays_at_its_end():
    layer = built("local, monotonic")
    mask = np.arange(6) < np.array([[2], [1]])
    place = np.minimum(np.arange(4), [[1], [0]])[..., None]  # (B, T, 1)
    near = mask[:, None] & (abs(np.arange(6) - place) <= 1)  # (B, T, S)
    _, weights = attend(layer, mask)
    assert ((weights > 0) == near).all()
    memory = layer.prepare_memory(VALUE, KEY, mask)
    state = layer.initial_state(memory, 2)
    for t in range(4):
        _, step_weights, state = layer.attend_step(QUERY[:, t], memory, state)
        assert_close(numpy(step_weights), weights[:, t])


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_in_other_precisions_steps_find_the_state_as_it_was_left(name, policy):
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX has no float64 unless told so")
    if policy == "float64" and keras.backend.backend() == "torch":
        pytest.skip(
            "Keras returns float32 from `ops.matmul` and `ops.cumsum` of float64 on PyTorch"
        )
    found = []

    def attend_step(query, memory, state):
        found.append(dtypes_of(state))
        context, weights, state = of_the_class(query, memory, state)
        assert dtypes_of(state) == found[-1]
        return context, weights, state

    with precision(policy):
        mechanism = MECHANISMS[name]()
        of_the_class, mechanism.attend_step = mechanism.attend_step, attend_step
        layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(4), mechanism), True)
        outputs, weights = layer(QUERY, VALUE, return_attention_scores=True)[:2]
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    assert np.isfinite(numpy(ops.cast(outputs, "float32"))).all()
    assert numpy(ops.cast(weights, "float32")).any()
    dtypes = dtypes_of(mechanism.initial_state(mechanism.prepare_memory(VALUE), 2))
    assert found and all(each == dtypes for each in found)


def dtypes_of(state):
    return [keras.backend.standardize_dtype(leaf.dtype) for leaf in tree.flatten(state)]


def test_noise_is_float32_whatever_the_float_type_of_keras():
    layer = MonotonicAttention(BahdanauAttention(5), sigmoid_noise=1.0)
    layer(QUERY, VALUE)
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        assert numpy(layer(QUERY, VALUE, training=True)).dtype == "float32"
    finally:
        keras.config.set_floatx(before)
