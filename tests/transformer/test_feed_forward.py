import keras
import numpy as np
import pytest

from keras_attn import FeedForward
from keras_attn.testing import check_layer
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.transformer_oracles import feed_forward, weights_of

INPUTS = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


def make(*arguments, **kwargs):
    layer = FeedForward(*arguments, **kwargs)
    layer(INPUTS)
    return randomize(layer)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu", "geglu", "reglu"])
def test_equals_the_equations(activation, use_bias):
    layer = make(7, activation, use_bias=use_bias)
    assert len(layer.weights) == (4 if use_bias else 2)
    for sentence, outputs in zip(INPUTS, numpy(layer(INPUTS)), strict=True):
        assert_close(outputs, feed_forward(sentence, weights_of(layer), activation))


def test_gelu_is_exact_far_from_zero_too():
    layer = FeedForward(1, "gelu", use_bias=False)
    x = np.linspace(-8, 8, 65, dtype="float32")[:, None]
    layer(x)
    layer.set_weights([np.ones((1, 1)), np.ones((1, 1))])
    weights = weights_of(layer)
    assert_close(numpy(layer(x)), feed_forward(x.astype("float64"), weights, "gelu"), 1e-6)


@pytest.mark.parametrize("activation", ["tanh", keras.activations.silu])
def test_takes_any_activation_of_keras(activation):
    layer = make(7, activation, use_bias=False)
    expansion, contraction = layer.get_weights()
    expected = numpy(keras.activations.get(activation)(INPUTS @ expansion)) @ contraction
    assert_close(numpy(layer(INPUTS)), expected)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 5, 4)])
def test_each_position_is_on_its_own(shape):
    layer = make(7, "swiglu")
    inputs = np.resize(INPUTS, shape)
    outputs = numpy(layer(inputs.reshape(-1, 4)))
    if len(shape) > 1:
        assert_close(numpy(layer(inputs)), outputs.reshape(shape))
    alone = np.concatenate([numpy(layer(each[None])) for each in inputs.reshape(-1, 4)])
    assert_close(alone, outputs)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu", "geglu"])
def test_is_a_good_layer(activation):
    check_layer(
        lambda: FeedForward(7, activation, kernel_initializer="he_normal", seed=1),
        {"inputs": INPUTS},
    )


def test_dropout_is_between_the_two_layers():
    """Without the second one's mixing, what is dropped is zero and the rest is twice as large."""
    layer = FeedForward(8, dropout=0.5, use_bias=False, seed=4)
    inputs = np.random.default_rng(0).uniform(1, 2, size=(3, 5, 8)).astype("float32")
    layer(inputs)
    layer.set_weights([np.eye(8), np.eye(8)])
    outputs = numpy(layer(inputs, training=True))
    kept = outputs != 0
    assert 0.2 < kept.mean() < 0.8
    assert_close(outputs[kept], 2 * inputs[kept])
    assert_close(numpy(layer(inputs)), inputs)


def test_a_seed_makes_the_same_dropout():
    one, other = (make(7, dropout=0.5, seed=4) for _ in range(2))
    assert_identical(numpy(one(INPUTS, training=True)), numpy(other(INPUTS, training=True)))


def test_a_mask_is_passed_on():
    inputs = keras.Input((None,), dtype="int32")
    outputs = FeedForward(7)(keras.layers.Embedding(5, 4, mask_zero=True)(inputs))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(outputs))
    assert_close(numpy(model(np.array([[3, 4, 0, 0]]))), numpy(model(np.array([[3, 4]]))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"intermediate_dim": 0}, "to be a positive integer. Received: intermediate_dim=0"),
        ({"intermediate_dim": 2.0}, "Received: intermediate_dim=2.0"),
        ({"dropout": 1.0}, r"dropout to be in \[0, 1\). Received: dropout=1.0"),
        ({"dropout": -0.5}, "Received: dropout=-0.5"),
        ({"activation": "cosine"}, "cosine"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"intermediate_dim": 8, **arguments})
