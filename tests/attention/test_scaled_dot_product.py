import keras
import numpy as np
import pytest
from keras import ops

from keras_attn._attention.scaled_dot_product import scaled_dot_product
from tests import oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy

GENERATOR = np.random.default_rng(3)
BATCH, HEADS, TARGET, SOURCE, HEAD_DIM, VALUE_DIM = 2, 6, 4, 5, 8, 3
QUERY = GENERATOR.normal(size=(BATCH, HEADS, TARGET, HEAD_DIM)).astype("float32")
BIAS = GENERATOR.normal(size=(1, HEADS, TARGET, SOURCE)).astype("float32")
SOMETIMES = GENERATOR.random((BATCH, HEADS, TARGET, SOURCE)) < 0.6
MASKS = {
    "none": None,
    "padding": np.arange(SOURCE) < np.array([3, 5])[:, None, None, None],
    "causal": np.tri(TARGET, SOURCE, dtype="bool")[None, None],
    "head": SOMETIMES[:1, :, :1],
    "full": SOMETIMES,
}


def keys_and_values(groups):
    shape = (BATCH, groups, SOURCE)
    keys = GENERATOR.normal(size=(*shape, HEAD_DIM)).astype("float32")
    return keys, GENERATOR.normal(size=(*shape, VALUE_DIM)).astype("float32")


def expected(query, keys, values, mask=None, bias=None):
    """softmax(q . k + bias) v of one head of one sentence after the other."""
    shape = (*query.shape[:3], keys.shape[2])
    mask = np.broadcast_to(True if mask is None else mask, shape)
    bias = np.broadcast_to(0.0 if bias is None else bias, shape)
    contexts, weights = np.zeros((*shape[:3], values.shape[3])), np.zeros(shape)
    heads_per_group = query.shape[1] // keys.shape[1]
    for b, h in np.ndindex(shape[:2]):
        g = h // heads_per_group
        scores = query[b, h].astype("float64") @ keys[b, g].T + bias[b, h]
        contexts[b, h], weights[b, h] = oracles.attend(scores, values[b, g], mask[b, h])
    return contexts, weights


@pytest.mark.parametrize("groups", [6, 3, 2, 1])
@pytest.mark.parametrize("bias", [None, BIAS], ids=["plain", "bias"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_equals_the_equation(mask, bias, groups):
    keys, values = keys_and_values(groups)
    received = scaled_dot_product(QUERY, keys, values, mask, bias)
    assert_close(received, expected(QUERY, keys, values, mask, bias))


def test_masked_weights_are_exactly_zero():
    keys, values = keys_and_values(HEADS)
    _, weights = scaled_dot_product(QUERY, 100.0 * keys, values, SOMETIMES)
    assert (numpy(weights)[~SOMETIMES] == 0).all()


def test_a_query_without_keys_gets_zeros():
    keys, values = keys_and_values(2)
    mask = MASKS["padding"] & np.array([[[[True]]], [[[False]]]])
    context, weights = scaled_dot_product(QUERY, keys, values, mask)
    assert not numpy(context)[1].any() and not numpy(weights)[1].any()
    assert np.isfinite(numpy(context)).all() and numpy(context)[0].all()


@pytest.mark.parametrize("mask", [None, np.ones((1, 1, 1, 1), "bool")])
def test_one_key_gets_all_the_weight(mask):
    keys, values = (x[:, :, :1] for x in keys_and_values(HEADS))
    context, weights = scaled_dot_product(QUERY, keys, values, mask)
    assert_identical(weights, np.ones((BATCH, HEADS, TARGET, 1), "float32"))
    assert_close(context, np.broadcast_to(values, context.shape))


def test_dropout_is_between_the_weights_and_the_values():
    keys, values = keys_and_values(3)
    plain_context, plain_weights = scaled_dot_product(QUERY, keys, values)
    context, weights = scaled_dot_product(
        QUERY, keys, values, dropout=lambda weights: 2.0 * weights
    )
    assert_identical(weights, plain_weights)
    assert_close(context, 2.0 * numpy(plain_context))


@pytest.mark.parametrize("mask", [None, MASKS["causal"]], ids=["none", "causal"])
def test_half_precision_has_its_softmax_in_single(mask):
    keys, values = keys_and_values(3)
    arrays = [x.astype("float16") for x in (QUERY, keys, values)]
    # Scores so large that exp overflows in float16, unless the greatest is subtracted.
    arrays[1] *= 10
    context, weights = scaled_dot_product(*arrays, mask, BIAS)
    assert context.dtype == weights.dtype == ops.convert_to_tensor(arrays[0]).dtype
    want = expected(*(x.astype("float32") for x in arrays), mask, BIAS)
    assert_close((context, weights), want, 0.05)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 2])
def test_equals_the_layer_of_keras(causal, window):
    layer = keras.layers.MultiHeadAttention(2, HEAD_DIM, sliding_window=window, use_bias=False)
    inputs = GENERATOR.normal(size=(BATCH, SOURCE, 7)).astype("float32")
    mask = np.arange(SOURCE) < np.array([3, 5])[:, None]
    settings = {"attention_mask": mask[:, None], "use_causal_mask": causal}
    want, want_weights = layer(inputs, inputs, return_attention_scores=True, **settings)

    kernels = [numpy(weight) for weight in layer.weights]
    query, keys, values = (np.einsum("bsf,fhd->bhsd", inputs, kernel) for kernel in kernels[:3])
    distances = np.arange(SOURCE)[:, None] - np.arange(SOURCE)
    allowed = mask[:, None, None]
    allowed = allowed & (distances >= 0) if causal else allowed
    allowed = allowed & (abs(distances) < window) if window else allowed
    context, weights = scaled_dot_product(query / HEAD_DIM**0.5, keys, values, allowed)
    received = np.einsum("bhtd,hdf->btf", numpy(context), kernels[3])
    # Where no key is left, Keras attends to all of them, and we to none.
    some = np.broadcast_to(allowed, weights.shape).any(axis=-1)
    assert_close(numpy(weights)[some], numpy(want_weights)[some])
    assert_close(received[some[:, 0]], numpy(want)[some[:, 0]])


@requires_tensorflow("counts the operations of its graph")
def test_groups_are_not_repeated_and_operations_are_few():
    import tensorflow as tf

    keys, values = keys_and_values(2)
    attend = tf.function(lambda *arrays: scaled_dot_product(*arrays)[0])
    graph = attend.get_concrete_function(*map(tf.constant, (QUERY, keys, values))).graph
    operations = [op.type for op in graph.get_operations()]
    counted = [kind for kind in operations if kind not in ("Placeholder", "Const", "Identity")]
    assert sorted(counted) == ["BatchMatMulV2"] * 2 + ["Reshape"] * 4 + ["Softmax", "Transpose"]


@requires_tensorflow("sizes that are only known when it runs")
def test_sizes_may_be_unknown():
    import tensorflow as tf

    keys, values = keys_and_values(3)
    unknown = [
        tf.TensorSpec((None, x.shape[1], None, x.shape[3]), "float32")
        for x in (QUERY, keys, values)
    ]
    attend = tf.function(scaled_dot_product, input_signature=unknown)
    assert_close(attend(QUERY, keys, values), expected(QUERY, keys, values))


@pytest.mark.parametrize("empty", ["query", "memory"])
def test_grouped_heads_may_have_nothing_to_attend_with_or_to(empty):
    query = np.ones((3, 4, 0 if empty == "query" else 2, 5), "float32")
    memory = np.ones((3, 2, 0 if empty == "memory" else 2, 5), "float32")
    context, weights = numpy(scaled_dot_product(query, memory, memory))
    assert context.shape == query.shape and not context.any()
    assert weights.shape == (*query.shape[:3], memory.shape[2])
