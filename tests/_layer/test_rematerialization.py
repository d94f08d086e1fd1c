"""Layers that were created in a `keras.RematScope` compute the same, and save memory for it."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CoverageAttention,
    FeedForward,
    MultiHeadAttention,
    TrainingModel,
    TransformerEncoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from tests.contracts import numpy
from tests.public_layers import LAYERS
from tests.slow_cases import all_slow_but

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def total(outputs):
    leaves = [each for each in tree.flatten(outputs) if each is not None]
    floats = [each for each in leaves if "float" in keras.backend.standardize_dtype(each.dtype)]
    return sum(ops.sum(ops.sin(ops.cast(each, "float32"))) for each in floats)


def loss_and_gradients(layer, inputs):
    """In a compiled function, as training computes them."""
    if keras.backend.backend() == "jax":
        import jax

        others = [each.value for each in layer.non_trainable_variables]

        @jax.jit
        @jax.value_and_grad
        def compute(values):
            return total(layer.stateless_call(values, others, **inputs, training=True)[0])

        loss, gradients = compute([each.value for each in layer.trainable_variables])
        return np.asarray(loss), [np.asarray(each) for each in gradients]
    if keras.backend.backend() == "torch":
        import torch

        variables = [each.value for each in layer.trainable_variables]
        loss = total(layer(**inputs, training=True))
        gradients = torch.autograd.grad(loss, variables, materialize_grads=True, allow_unused=True)
        return numpy((loss, list(gradients)))
    import tensorflow as tf

    variables = [each.value for each in layer.trainable_variables]

    @tf.function
    def compute(inputs):
        with tf.GradientTape() as tape:
            loss = total(layer(**inputs, training=True))
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        return loss, [tf.convert_to_tensor(each) for each in gradients]

    loss, gradients = compute(tree.map_structure(tf.constant, inputs))
    return np.asarray(loss), [np.asarray(each) for each in gradients]


def check_equal(make, inputs, scope):
    plain = make()
    plain(**inputs)
    with scope:
        layer = make()
    layer(**inputs)
    layer.set_weights(plain.get_weights())
    expected, received = loss_and_gradients(plain, inputs), loss_and_gradients(layer, inputs)
    np.testing.assert_allclose(received[0], expected[0], rtol=1e-5)
    for one, other in zip(received[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


SEARCHES = {"AlternativesDecoder", "BeamDecoder", "GreedyDecoder", "SamplingDecoder"}
WITH_GRADIENTS = sorted(set(LAYERS) - SEARCHES - {"AttentionRNNCell"})
FAST = ["AttentionRNN", "MultiHeadAttention", "RNNDecoder", "TransformerDecoder"]


@pytest.mark.parametrize("name", all_slow_but(*FAST, cases=WITH_GRADIENTS))
def test_scope_changes_no_gradient_of_a_layer(name):
    make, inputs = LAYERS[name]
    check_equal(make, inputs, keras.RematScope("full"))


DROPOUT = {"dropout": 0.5, "seed": 3}
OTHERS = {
    "larger_than": (
        lambda: TransformerEncoderBlock(2, 12),
        {"mode": "larger_than", "output_size_threshold": 1},
    ),
    "list_of_layers": (
        lambda: TransformerEncoderBlock(2, 12, name="block"),
        {"mode": "list_of_layers", "layer_names": ["block"]},
    ),
    "activations": (lambda: FeedForward(12, activation="gelu"), {"mode": "activations"}),
    "activations of a gate": (
        lambda: TransformerEncoderBlock(2, 12, activation="swiglu"),
        {"mode": "activations"},
    ),
    "dropout": (lambda: TransformerEncoderBlock(2, 12, **DROPOUT), {}),
    "dropout of attention": (lambda: MultiHeadAttention(2, 4, **DROPOUT), {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_scope_of_another_mode_or_with_dropout_changes_no_gradient(name):
    make, scope = OTHERS[name]
    inputs = {"query" if "attention" in name else "inputs": X}
    check_equal(make, inputs, keras.RematScope(**scope))


LOOPS = [*itertools.product([BahdanauAttention, CoverageAttention], [False, True])]


@pytest.mark.parametrize(
    ("kind", "feeding"),
    all_slow_but(*LOOPS, cases=LOOPS, on_jax=[LOOPS[0], LOOPS[-1]]),
)
def test_scope_changes_no_gradient_of_a_loop_in_half_precision(kind, feeding):
    half = {"dtype": "mixed_bfloat16"}

    def make():
        cell = AttentionRNNCell(
            keras.layers.GRUCell(4, **half), kind(4, **half), input_feeding=feeding, **half
        )
        return AttentionRNN(cell, **half)

    plain, inputs = make(), {"inputs": X, "encoder_outputs": X}
    plain(**inputs)
    with keras.RematScope("full"):
        layer = make()
    layer(**inputs)
    layer.set_weights(plain.get_weights())
    for one, other in zip(
        loss_and_gradients(layer, inputs)[1], loss_and_gradients(plain, inputs)[1], strict=True
    ):
        np.testing.assert_allclose(one, other, atol=0.1, rtol=0.05)


@pytest.mark.parametrize("part", ["block", "decoder block", "cell"])
def test_scope_recomputes_in_the_backward_pass(part, monkeypatch):
    """The parts of a model compute twice in training, and once otherwise."""
    with keras.RematScope("full"):
        if part == "cell":
            cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(4))
            layer, inputs = AttentionRNN(cell), {"inputs": X, "encoder_outputs": X}
            counted, method = AttentionRNNCell, "call"
        else:
            encoder, decoder = transformer_seq2seq(
                9, 9, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=12, dropout=0.0
            )
            layer = encoder if part == "block" else decoder
            inputs = {"inputs": np.array([[5, 6]])}
            counted, method = TransformerEncoderBlock, "call"
            if part == "decoder block":
                inputs = {"token_ids": np.array([[5, 6]]), "encoder_outputs": X[:1]}
                counted, method = type(decoder.stack.blocks[0]), "run"
    layer(**inputs)
    calls, original = [], getattr(counted, method)

    def count(self, *args, **kwargs):
        calls.append(method)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(counted, method, count)
    loss_and_gradients(layer, inputs)
    recomputed = 1 if keras.backend.backend() == "jax" else 2  # JAX traces once
    assert len(calls) >= recomputed
    if keras.backend.backend() == "jax":
        import jax

        others = [each.value for each in layer.non_trainable_variables]

        def compute(values):
            return total(layer.stateless_call(values, others, **inputs, training=True)[0])

        values = [each.value for each in layer.trainable_variables]
        assert "remat" in str(jax.make_jaxpr(compute)(values)) or "checkpoint" in str(
            jax.make_jaxpr(compute)(values)
        )


@pytest.mark.parametrize("kind", all_slow_but("transformer", cases=["rnn", "transformer"]))
def test_model_of_a_scope_trains_as_without_it(kind):
    def trained(scope):
        with scope:
            if kind == "rnn":
                pair = rnn_seq2seq(9, 9, units=4, embedding_dim=4, dropout=0.3, seed=1)
            else:
                pair = transformer_seq2seq(
                    9,
                    9,
                    num_layers=1,
                    num_heads=2,
                    embedding_dim=8,
                    intermediate_dim=12,
                    dropout=0.3,
                    seed=1,
                )
            model = TrainingModel(*pair)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.5), loss, jit_compile=False)
        ids = np.array([[5, 6, 7], [5, 2, 0]])
        inputs = {"source_ids": ids, "target_ids": ids}
        history = model.fit(inputs, ids, batch_size=2, epochs=2, shuffle=False, verbose=0)
        return history.history["loss"]

    with_scope, without = trained(keras.RematScope("full")), trained(keras.RematScope(None))
    np.testing.assert_allclose(with_scope, without, rtol=1e-4)
