import warnings

import keras
import numpy as np
import pytest
from keras import layers

from keras_attn import AttentionRNNCell, LuongAttention, RNNDecoder, TrainingModel, rnn_seq2seq
from keras_attn.training import (
    ClippedAdam,
    InverseSquareRootSchedule,
    LossScaleOptimizer,
    SequenceCrossentropy,
    TokenCrossentropy,
    compile_for_training,
)
from tests.backend import precision, requires_tensorflow
from tests.contracts import numpy
from tests.training.toy_training import ToyBatches, toy_model


def test_the_loss_in_the_logs_is_the_mean_over_tokens():
    """The batches differ in the number of tokens and sentences and in padding."""
    model = compile_for_training(toy_model(), label_smoothing=0.1)
    batches = [ToyBatches().batch(step) for step in range(4)]
    metric = TokenCrossentropy(0.1)
    for inputs, labels in batches:
        metric.update_state(labels, model(inputs))
    logs = model.evaluate((batch for batch in batches), steps=4, return_dict=True, verbose=0)
    assert logs["loss"] == pytest.approx(float(metric.result()), rel=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numpy_numbers_are_accepted(kind):
    model = compile_for_training(
        toy_model(), kind(0.5), kind(2), kind(0.25), ignore_class=np.int32(0), beta_2=kind(0.75)
    )
    settings = model.optimizer.learning_rate, model.optimizer.global_clipnorm
    assert settings == (0.5, 2) and type(settings[1]) is float
    assert model.optimizer.beta_2 == 0.75 and type(model.optimizer.beta_2) is float


def test_the_loss_in_the_logs_takes_account_of_weights():
    model = compile_for_training(toy_model(), label_smoothing=0.1)
    inputs, labels = ToyBatches().batch(0)
    weights = np.array([[4.0], [0.0], [0.0], [0.0]])
    logs = model.evaluate(inputs, labels, sample_weight=weights, return_dict=True, verbose=0)
    first = {name: ids[:1] for name, ids in inputs.items()}
    expected = numpy(SequenceCrossentropy(0.1)(labels[:1], model(first)))
    assert logs["loss"] == pytest.approx(float(expected), rel=1e-5)


def test_losses_of_the_model_stay_in_the_logs():
    inputs = keras.Input((None, 2))
    regularizer = keras.regularizers.L2(10.0)
    model = keras.Model(inputs, keras.layers.Dense(4, kernel_regularizer=regularizer)(inputs))
    compile_for_training(model, label_smoothing=0.0)
    features, labels = np.ones((2, 3, 2), "float32"), np.ones((2, 3), "int32")
    logs = model.evaluate(features, labels, return_dict=True, verbose=0)
    weights = keras.ops.convert_to_numpy(model.trainable_weights[0])
    expected = (
        float(numpy(SequenceCrossentropy()(labels, model(features)))) + 10 * (weights**2).sum()
    )
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)


def test_settings_reach_the_optimizer():
    schedule = InverseSquareRootSchedule(0.1, 5)
    model = compile_for_training(toy_model(), schedule, global_clipnorm=3.0, beta_2=0.98)
    config = model.optimizer.get_config()
    assert (config["global_clipnorm"], config["beta_2"]) == (3.0, 0.98)
    assert model.optimizer.built
    assert float(model.optimizer.learning_rate) == pytest.approx(0.02)
    assert model.loss.label_smoothing == 0.1


def test_labels_of_padding_may_be_outside_of_the_classes():
    model = compile_for_training(toy_model())
    inputs, labels = ToyBatches().batch(0)
    expected = model.evaluate(inputs, labels, return_dict=True, verbose=0)
    compile_for_training(model, ignore_class=-100)
    others = np.where(labels == 0, -100, labels)
    logs = model.evaluate(inputs, others, return_dict=True, verbose=0)
    assert logs == pytest.approx(expected, rel=1e-6)
    model.fit(inputs, others, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_gradients_are_scaled_where_layers_are_of_float16():
    """The dtype policy of a functional model does not determine that of its layers."""
    inputs = keras.Input((None, 2))
    model = keras.Model(inputs, keras.layers.Dense(4, dtype="mixed_float16")(inputs))
    assert isinstance(compile_for_training(model).optimizer, LossScaleOptimizer)
    assert isinstance(compile_for_training(toy_model()).optimizer, ClippedAdam)


@requires_tensorflow("JAX always compiles")
def test_the_step_is_not_compiled_anew_for_every_shape():
    assert compile_for_training(toy_model()).jit_compile is False


def test_losses_are_scaled_once():
    inputs = keras.Input((None, 2))
    model = keras.Model(inputs, keras.layers.Dense(4, dtype="mixed_float16")(inputs))
    with pytest.raises(ValueError, match="loss_scale_factor=8.0. Pass it as initial_scale"):
        compile_for_training(model, loss_scale_factor=8.0)


def test_two_outputs_are_rejected():
    inputs = keras.Input((None, 2))
    outputs = [keras.layers.Dense(4, name=name)(inputs) for name in ("one", "other")]
    for structure in (outputs, dict(zip("ab", outputs, strict=True))):
        with pytest.raises(ValueError, match="one output, the logits. Received: model with the"):
            compile_for_training(keras.Model(inputs, structure))


def nested(layer):
    inputs = keras.Input((None, 2))
    return keras.Model(inputs, layer(inputs))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Dense(4, "softmax"),
        lambda: layers.Activation("sigmoid"),
        lambda: keras.ops.softmax,
        lambda: layers.TimeDistributed(layers.Dense(4, "softmax")),
        lambda: nested(layers.Softmax()),
    ],
)
def test_outputs_that_are_not_logits_cause_a_warning(layer):
    with pytest.warns(UserWarning, match="logits.* Received: model whose last layer"):
        compile_for_training(nested(layer()))


def test_softmax_of_the_output_layer_of_a_decoder_causes_a_warning():
    output_layer = layers.Dense(9, "softmax", name="probabilities")
    cell = AttentionRNNCell(layers.LSTMCell(4), LuongAttention())
    decoder = RNNDecoder(cell, layers.Embedding(9, 4), head=output_layer)
    encoder = rnn_seq2seq(9, 9, units=4, embedding_dim=4)[0]
    with pytest.warns(UserWarning, match="'probabilities' applies a softmax"):
        compile_for_training(TrainingModel(encoder, decoder))


def test_softmax_of_another_layer_causes_no_warning():
    parts = [layers.Dense(3, "softmax"), layers.Dense(4, "log_softmax")]
    with warnings.catch_warnings(action="error"):
        compile_for_training(keras.Sequential([keras.Input((None, 2)), *parts]))


@pytest.mark.parametrize("policy", ["bfloat16", "float16"])
def test_weights_of_half_precision_are_refused(policy):
    """Updates below 1/256 of a weight have no effect in bfloat16; Adam gives NaN in float16."""
    with (
        precision(policy),
        pytest.raises(ValueError, match=f"dtype='{policy}'. Use the policy 'mixed_{policy}'"),
    ):
        compile_for_training(toy_model())


@requires_tensorflow("JAX has float64 only with a flag")
@pytest.mark.parametrize("fused_loss", [True, False])
def test_training_step_works_where_floatx_is_float64(fused_loss):
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        encoder, decoder = rnn_seq2seq(9, 9, units=4, embedding_dim=4, dropout=0.1)
        trainer = TrainingModel(encoder, decoder)
        compile_for_training(trainer, fused_loss=fused_loss)
        inputs = {"source_ids": np.array([[5, 6, 2]]), "target_ids": np.array([[1, 4, 5]])}
        logs = trainer.train_on_batch(inputs, np.array([[4, 5, 2]]), return_dict=True)
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)
    assert {weight.dtype for weight in trainer.trainable_weights} == {"float64"}
    assert logs["loss"] == pytest.approx(np.log(9), rel=0.2)
