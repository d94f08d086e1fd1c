"""Copies of layers are independent objects with the same variables and results."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import BeamDecoder, GenerationModel, rnn_seq2seq, transformer_seq2seq
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export._trace.copy_layers import copy_layers
from tests.contracts import assert_close

layers = keras.layers
IDS = np.array([[5, 6, 7, 2], [8, 9, 2, 0]], "int32")
ROWS = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)


def assert_is_copy(copied, model):
    """Checks that a copy has new layers and the same variables."""
    originals = {id(each) for each in flatten_layers([model])}
    found = flatten_layers([copied])
    assert len(found) == len(originals)
    assert not originals & {id(each) for each in found}
    assert [id(each) for each in copied.variables] == [id(each) for each in model.variables]


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_copy_layers_of_a_GenerationModel(kind):
    if kind == "rnn":
        encoder, decoder = rnn_seq2seq(12, 12, units=4, embedding_dim=4, seed=1)
    else:
        encoder, decoder = transformer_seq2seq(
            *(12, 12), num_layers=1, num_heads=2, embedding_dim=4, intermediate_dim=4, seed=1
        )
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=2, max_length=4))
    (copied,) = copy_layers(model)
    assert_is_copy(copied, model)
    for name, value in model(IDS).items():
        assert_close(copied(IDS)[name], value)


def test_copy_layers_see_later_changes_of_the_variables():
    dense = layers.Dense(2)
    model = keras.Sequential([keras.Input((3,)), dense])
    (copied,) = copy_layers(model)
    dense.kernel.assign(2 * dense.kernel)
    assert_close(copied(ROWS), model(ROWS))


def test_copy_layers_keeps_what_several_layers_share():
    shared = layers.Dense(3)
    first, second = keras.Sequential([shared]), keras.Sequential([shared])
    copies = copy_layers(first, second)
    assert copies[0].layers[0] is copies[1].layers[0] is not shared


def test_copy_layers_needs_no_config():
    class Scale(layers.Layer):
        def __init__(self, factor, **kwargs):
            super().__init__(**kwargs)
            self.factor = factor
            self.parts = {"dense": [layers.Dense(3)]}

        def call(self, x):
            return self.parts["dense"][0](x) * self.factor

    inputs = keras.Input((3,))
    outputs = layers.Lambda(lambda x: x + 1)(Scale(2.0)(inputs))
    model = keras.Model(inputs, ops.tanh(outputs))
    model.layers[1].factor = 3.0
    (copied,) = copy_layers(model)
    assert_is_copy(copied, model)
    assert_close(copied(ROWS), model(ROWS))
    copied.layers[1].factor = 4.0
    assert np.abs(copied(ROWS) - model(ROWS)).max() > 1e-3


@dataclasses.dataclass
class Helper:
    layer: keras.Layer
    name: str


class Referring(layers.Layer):
    """Refers to one layer in several ways."""

    def __init__(self):
        super().__init__()
        self.dense = dense = layers.Dense(3)
        self.helper = Helper(dense, "helper")
        self.method = dense.call
        self.partial = functools.partial(layers.Dense.call, dense)
        self.closure = lambda x: dense(x)
        self.default = lambda x, layer=dense: layer(x)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        functions = (self.helper.layer, self.method, self.partial, self.closure, self.default)
        return ops.concatenate([function(x) for function in functions], axis=-1)


def test_copy_layers_follows_helpers_methods_and_closures():
    layer = Referring()
    expected = layer(ROWS)
    (copied,) = copy_layers(layer)
    copied.dense.use_bias = copied.dense.bias = None
    copied.dense.activation = ops.zeros_like
    assert_close(copied(ROWS), np.zeros((4, 15)))
    assert_close(layer(ROWS), expected)
    assert copied.helper.name == "helper" and copied.helper is not layer.helper


def test_copy_layers_builds_a_copy_without_touching_the_original():
    layer = Referring()
    (copied,) = copy_layers(layer)
    copied(ROWS)
    assert copied.built and copied.dense.built
    assert not layer.built and not layer.dense.built and not layer.variables


def test_copy_layers_keeps_losses_apart():
    class Penalized(layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(x))
            return x

    layer = Penalized()
    (copied,) = copy_layers(layer)
    copied(ROWS)
    assert len(copied.losses) == 1 and not layer.losses
