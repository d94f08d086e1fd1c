"""Variables and attributes that Keras does not track, in trainings that resume."""

import keras
import numpy as np
import pytest

from keras_attn.training import fit
from tests.training.toy_training import InterruptAt, SumBatches

not_on_jax = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="Keras on JAX fails or does not change these variables"
)


class LossWithState(keras.losses.Loss):
    """Weights the loss by a number that each step changes, as a center loss moves its centers."""

    def __init__(self):
        super().__init__()
        self.weight = keras.Variable(1.0, trainable=False, name="weight")

    def call(self, y_true, y_pred):
        self.weight.assign(self.weight * 0.9)
        return self.weight * keras.ops.mean((y_true - y_pred) ** 2, axis=-1)


class Anneal(keras.callbacks.Callback):
    def __init__(self, variable):
        super().__init__()
        self.variable = variable

    def on_epoch_end(self, epoch, logs=None):
        self.variable.assign(self.variable * 0.5)


def loss_with_state():
    return LossWithState(), []


def annealed_loss():
    weight = keras.Variable(1.0, trainable=False, name="weight")

    def loss(y_true, y_pred):
        return weight * keras.ops.mean((y_true - y_pred) ** 2, axis=-1)

    return loss, [Anneal(weight)]


def compiled(make, kind=keras.Sequential):
    keras.utils.set_random_seed(3)
    loss, callbacks = make()
    model = kind([keras.Input((4,)), keras.layers.Dense(1), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model, callbacks


@not_on_jax
@pytest.mark.parametrize("make", [loss_with_state, annealed_loss])
def test_variables_that_keras_does_not_track_are_restored(make, tmp_path):
    arguments = {"epochs": 3, "save_steps": 1, "verbose": 0}
    plain, callbacks = compiled(make)
    history = fit(plain, SumBatches(), callbacks=callbacks, **arguments).history
    arguments["directory"] = tmp_path
    interrupted, callbacks = compiled(make)
    step = SumBatches.steps_per_epoch + 2
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, SumBatches(), callbacks=[*callbacks, InterruptAt(step)], **arguments)
    resumed, callbacks = compiled(make)
    received = fit(resumed, SumBatches(), callbacks=callbacks, **arguments).history
    np.testing.assert_array_equal(received["loss"], history["loss"])
    for one, other in zip(resumed.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


class Counting(keras.Sequential):
    num_calls = 0

    def reset_metrics(self):
        self.num_calls += 1
        super().reset_metrics()


def test_changed_attributes_of_a_model_are_named(tmp_path):
    arguments = {"epochs": 1, "directory": tmp_path, "save_steps": 1, "verbose": 0}
    model, _ = compiled(lambda: ("mse", []), Counting)
    with pytest.raises(KeyboardInterrupt):
        fit(model, SumBatches(), callbacks=[InterruptAt(2)], **arguments)
    model, _ = compiled(lambda: ("mse", []), Counting)
    with pytest.warns(UserWarning, match=r"changed attributes Counting.num_calls"):
        fit(model, SumBatches(), **arguments)


class Freeze(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.layers[0].trainable = False


@not_on_jax
def test_training_whose_callback_freezes_layers_cannot_resume(tmp_path):
    arguments = {"epochs": 1, "directory": tmp_path, "save_steps": 1, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        callbacks = [Freeze(), InterruptAt(2)]
        fit(compiled(annealed_loss)[0], SumBatches(), callbacks=callbacks, **arguments)
    with pytest.raises(ValueError, match=r"trainable. Call fit once for each phase"):
        fit(compiled(annealed_loss)[0], SumBatches(), callbacks=[Freeze()], **arguments)


class KeepWeights(keras.callbacks.Callback):
    """Begins with `None`, and needs a value in `on_train_end`."""

    weights = None

    def on_epoch_end(self, epoch, logs=None):
        self.weights = self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)


def test_callback_without_state_is_not_called_for_a_finished_training(tmp_path):
    arguments = {"epochs": 1, "directory": tmp_path, "verbose": 0}
    model, _ = compiled(lambda: ("mse", []))
    fit(model, SumBatches(), callbacks=[KeepWeights()], **arguments)
    again, _ = compiled(lambda: ("mse", []))
    with pytest.warns(UserWarning, match="KeepWeights.weights"):
        fit(again, SumBatches(), callbacks=[KeepWeights()], **arguments)
    for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


class Subclassed(keras.Model):
    def __init__(self, layers):
        super().__init__()
        self.parts = layers

    def call(self, inputs):
        for layer in self.parts:
            inputs = layer(inputs)
        return inputs


class CountingMetric(keras.metrics.Mean):
    def __init__(self):
        super().__init__(name="count")
        self.num_results = 0

    def result(self):
        self.num_results += 1
        return super().result()

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_pred)


def test_changed_attributes_of_a_compiled_metric_are_named(tmp_path):
    def new():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[CountingMetric()])
        return model

    arguments = {"directory": tmp_path, "epochs": 2, "save_steps": 1, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(new(), SumBatches(), callbacks=[InterruptAt(2)], **arguments)
    with pytest.warns(UserWarning, match=r"changed attributes CountingMetric.num_results"):
        fit(new(), SumBatches(), **arguments)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="modules of PyTorch")
@pytest.mark.parametrize("kind", [keras.Sequential, Subclassed])
def test_buffers_of_pytorch_modules_are_restored(kind, tmp_path):
    import torch

    def train(directory=None, callbacks=()):
        keras.utils.set_random_seed(3)
        norm = keras.layers.TorchModuleWrapper(torch.nn.BatchNorm1d(4), output_shape=(None, 4))
        model = kind([norm, keras.layers.Dense(1)])
        model(np.ones((2, 4), "float32"))
        model.compile(keras.optimizers.SGD(0.01), "mse")
        arguments = {"directory": directory, "epochs": 3, "save_steps": 1, "verbose": 0}
        fit(model, SumBatches(), callbacks=list(callbacks), **arguments)
        return model.predict(np.ones((2, 4)), verbose=0), norm.module.state_dict()

    expected, buffers = train()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, [InterruptAt(SumBatches.steps_per_epoch + 2)])
    received, restored = train(tmp_path)
    np.testing.assert_array_equal(received, expected)
    for name, buffer in buffers.items():
        assert torch.equal(restored[name], buffer), name
