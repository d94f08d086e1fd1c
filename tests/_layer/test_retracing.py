"""Compiled functions of Keras models follow changes of the layers, against calls of the models."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    CausalLanguageModel,
    GenerationModel,
    GreedyDecoder,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    rnn_seq2seq,
)
from keras_attn.training import enable_lora

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def block_model():
    inputs = keras.Input((3, 4))
    block = TransformerEncoderBlock(2, 8, name="block")
    model = keras.Model(inputs, block(inputs))
    model.compile(loss="mse")
    return model, block


def randomize_updates(layer):
    for number, variable in enumerate(layer.weights):
        if "lora" in variable.name:
            variable.assign(keras.random.normal(variable.shape, seed=number))


def add_updates(block, *kernels):
    block.self_attention.enable_lora(2, kernels=kernels)
    randomize_updates(block)


def replace_updates(block):
    """Has the same number of weights, of the same shapes, in the same order as before."""
    block.self_attention.merge_lora()
    add_updates(block, "value")


def set_alpha(block):
    block.self_attention.lora_alpha = 7.0


def set_activation(block):
    block.feed_forward.activation = ops.tanh


def set_dtype(block):
    block.self_attention.dtype_policy = "bfloat16"


CHANGES = {
    "enable_lora": lambda block: add_updates(block, "query"),
    "other kernels": replace_updates,
    "lora_alpha": set_alpha,
    "merge_lora": lambda block: block.self_attention.merge_lora(),
    "activation": set_activation,
    "dtype_policy": set_dtype,
}


def test_changes_of_a_layer_reach_predict_and_evaluate_of_a_functional_model():
    model, block = block_model()
    y = np.zeros_like(X)
    before = model.predict(X, verbose=0)
    model.evaluate(X, y, verbose=0)
    for name, change in CHANGES.items():
        change(block)
        # Not `model(X)`: in bfloat16, compiled operations of XLA round less often than single ones.
        expected = keras.Model(model.inputs, model.outputs).predict(X, verbose=0)
        assert name == "merge_lora" or np.abs(expected - before).max() > 1e-3, name
        before = model.predict(X, verbose=0)
        np.testing.assert_allclose(before, expected, atol=1e-5, err_msg=name)
        loss = model.evaluate(X, y, verbose=0)
        np.testing.assert_allclose(loss, np.mean(expected**2), rtol=1e-4, err_msg=name)


def test_frozen_layer_is_not_trained_by_a_model_that_was_trained_before():
    inputs = keras.Input((3, 4))
    block = TransformerEncoderBlock(2, 8)
    model = keras.Model(inputs, keras.layers.Dense(2)(block(inputs)))
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1))
    y = np.ones((2, 3, 2), "float32")
    model.fit(X, y, verbose=0)
    block.trainable = False
    frozen = block.get_weights()
    if keras.backend.backend() == "jax":
        with pytest.raises(ValueError, match="2 trainable weights .* `model.compile"):
            model.fit(X, y, verbose=0)
    else:
        model.fit(X, y, verbose=0)
    for received, expected in zip(block.get_weights(), frozen, strict=True):
        np.testing.assert_array_equal(received, expected)


def test_changes_of_layers_reach_generate_with_and_without_prefix():
    keras.utils.set_random_seed(2)
    block = TransformerDecoderBlock(2, 8, cross_attention=False)
    decoder = CausalLanguageModel(block, keras.layers.ReversibleEmbedding(12, 8), num_layers=1)
    search = GreedyDecoder(decoder, max_length=6, relative_max_length=None)
    former = GenerationModel(None, search)
    before = former.generate([[4, 5, 6]])
    assert former.generate([[4, 5, 6]], target_prefix=before[0][:1]) == before
    enable_lora(former, rank=2)
    randomize_updates(former)
    search.max_length = 4
    after = GenerationModel(None, search).generate([[4, 5, 6]])
    assert after != before
    assert former.generate([[4, 5, 6]]) == after
    assert former.generate([[4, 5, 6]], target_prefix=after[0][:1]) == after


def test_functions_are_kept_while_no_layer_changes():
    model, block = block_model()
    y = np.zeros_like(X)
    for call in (model.predict, lambda x, verbose: model.fit(x, y, verbose=verbose)):
        call(X, verbose=0)
    functions = model.predict_function, model.train_function
    block.set_weights([weight * 2 for weight in block.get_weights()])
    model.fit(X, y, epochs=2, validation_data=(X, y), verbose=0)
    model.predict(X, verbose=0)
    model.predict_on_batch(X)
    assert (model.predict_function, model.train_function) == functions


def test_function_of_a_generation_model_is_kept_between_batches():
    encoder, decoder = rnn_seq2seq(12, 12, embedding_dim=4, units=4)
    model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=2))
    model.generate([[4, 5]])
    function = model.predict_function
    model.generate([[4, 5], [4]], batch_size=1)
    assert model.predict_function is function


def test_models_of_keras_layers_keep_their_functions():
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    model.predict(X, verbose=0)
    function = model.predict_function
    model.layers[1].rate = 0.1
    model.predict(X, verbose=0)
    assert model.predict_function is function


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="once is enough")
def test_compared_settings_keep_no_model_alive():
    model, block = block_model()
    model.predict(X, verbose=0)
    references = [weakref.ref(each) for each in (model, block, block.weights[0])]
    del model, block
    keras.backend.clear_session()
    gc.collect()
    assert [each() for each in references] == [None] * 3
