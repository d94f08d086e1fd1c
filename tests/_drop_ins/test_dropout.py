import itertools

import keras
import numpy as np
import pytest

from keras_attn._drop_ins.dropout import Dropout
from tests.backend import requires_tensorflow
from tests.contracts import numpy


def drop(rate, shape, seed=1):
    return numpy(Dropout(rate, seed=seed)(np.ones(shape, "float32"), training=True))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.85])
def test_drops_a_share_and_keeps_the_expected_sum(rate):
    dropped = drop(rate, (300, 1001))
    is_kept = dropped != 0
    rate_of_call = 1 - 1 / dropped.max()
    assert abs(rate_of_call - rate) < 1 / 256
    np.testing.assert_allclose(dropped[is_kept], dropped.max())
    # Four standard deviations of the mean of 300,300 decisions.
    tolerance = 4 * np.sqrt(rate * (1 - rate) / dropped.size)
    assert abs(is_kept.mean() - (1 - rate_of_call)) < tolerance
    # Four decisions come from one integer: they must not depend on each other.
    four = is_kept.reshape(-1, 4)
    for one, other in itertools.combinations(range(4), 2):
        both = (four[:, one] & four[:, other]).mean()
        assert abs(both - (1 - rate_of_call) ** 2) < 4 * tolerance
    assert np.abs(is_kept.mean(axis=0) - (1 - rate)).max() < 6 * np.sqrt(0.25 / 300)


@pytest.mark.parametrize("rate", [0.001, 0.3, 0.998])
def test_the_calls_have_the_rate_in_their_mean(rate):
    layer, ones = Dropout(rate, seed=1), np.ones((25, 40), "float32")
    shares = [(numpy(layer(ones, training=True)) == 0).mean() for _ in range(400)]
    # Four standard deviations: of 400,000 decisions, and of 400 roundings to 1/256.
    assert abs(np.mean(shares) - rate) < 4 * np.sqrt(rate * (1 - rate) / 4e5 + 0.25 / 256**2 / 400)


def test_each_call_drops_others_and_a_seed_repeats_them():
    layer, same = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    x = np.ones((4, 25), "float32")
    first, second = numpy(layer(x, training=True)), numpy(layer(x, training=True))
    assert (first != second).any()
    np.testing.assert_array_equal(first, same(x, training=True))
    np.testing.assert_array_equal(second, same(x, training=True))
    assert (first != drop(0.5, (4, 25), seed=4)).any()


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5, 7), (2, 2, 2, 2)])
def test_any_shape(shape):
    assert drop(0.4, shape).shape == shape


@pytest.mark.parametrize("rate, expected", [(0.0, 1.0), (1.0, 0.0), (0.3, None)])
def test_nothing_everything_and_not_training(rate, expected):
    x = np.ones((3, 4), "float32")
    if expected is not None:
        np.testing.assert_array_equal(Dropout(rate)(x, training=True), np.full_like(x, expected))
    np.testing.assert_array_equal(Dropout(rate)(x, training=False), x)


def test_a_noise_shape_is_shared_along_its_axes():
    dropped = numpy(Dropout(0.5, noise_shape=(None, 1), seed=1)(np.ones((50, 6)), training=True))
    assert (dropped == dropped[:, :1]).all() and len(np.unique(dropped)) == 2


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_other_precisions(dtype):
    layer = Dropout(0.5, seed=1, dtype=dtype)
    dropped = layer(np.ones((40, 5), "float32"), training=True)
    assert keras.backend.standardize_dtype(dropped.dtype) == layer.compute_dtype
    assert set(np.unique(numpy(keras.ops.cast(dropped, "float32")))) == {0.0, 2.0}


@requires_tensorflow("the gradient is TensorFlow's")
def test_the_gradient_passes_where_values_do():
    import tensorflow as tf

    layer, x = Dropout(0.3, seed=1), tf.ones((20, 7))

    @tf.function(input_signature=[tf.TensorSpec((None, None))])
    def outputs_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=True)
        return outputs, tape.gradient(outputs, x)

    outputs, gradient = outputs_and_gradient(x)
    assert (outputs.numpy() == 0).any()
    np.testing.assert_array_equal(gradient, outputs)


def test_config_round_trip():
    layer = Dropout(0.2, noise_shape=(None, 1), seed=5)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert isinstance(copy, Dropout) and copy.get_config() == layer.get_config()
