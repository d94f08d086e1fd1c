"""Variables and attributes that Keras does not track, in trainings that resume."""

import random
import warnings

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


def regression(kind=keras.Model):
    inputs = keras.Input((4,))
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model


def interrupt_and_resume(build, directory):
    """Returns the weights without and with an interruption, and the warnings of the resumption."""

    def train(directory=None, *more):
        keras.utils.set_random_seed(3)
        model, callbacks, extra = build()
        arguments = {"directory": directory, "epochs": 3, "save_steps": 1, "verbose": 0}
        fit(model, SumBatches(), callbacks=[*callbacks, *more], **arguments)
        return [*model.get_weights(), *map(keras.ops.convert_to_numpy, extra)]

    expected = train()
    with pytest.raises(KeyboardInterrupt):
        train(directory, InterruptAt(SumBatches.steps_per_epoch + 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        received = train(directory)
    messages = [str(each.message) for each in caught]
    return expected, received, [each for each in messages if "begin again" in each]


class TrainsAnother(keras.callbacks.Callback):
    """Trains a second model and averages the weights of the first one."""

    def __init__(self, model):
        super().__init__()
        self.critic = regression()
        self.average = [keras.Variable(np.zeros(each.shape, "float32")) for each in model.weights]

    def on_train_batch_end(self, batch, logs=None):
        ones = np.ones((2, 4), "float32"), np.full((2, 1), batch, "float32")
        self.critic.train_on_batch(*ones)
        for average, weight in zip(self.average, self.model.weights, strict=True):
            average.assign(0.5 * average + 0.5 * weight)


def callback_with_variables():
    model = regression()
    callback = TrainsAnother(model)
    return model, [callback], [*callback.critic.weights, *callback.average]


def target_network():
    target = regression()

    class Student(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return keras.ops.mean((y_pred - y - target(x)) ** 2)

    class MoveTarget(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            for slow, fast in zip(target.variables, self.model.variables, strict=True):
                slow.assign(0.5 * slow + 0.5 * fast)

    return regression(Student), [MoveTarget()], target.variables


def generator_of_tensorflow():
    import tensorflow as tf

    class Noise(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.generator = tf.random.Generator.from_seed(7)

        def call(self, inputs):
            return inputs + self.generator.normal(tf.shape(inputs))

    model = keras.Sequential([keras.Input((4,)), Noise(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model, [], []


SAVED = {
    "callback with variables": callback_with_variables,
    "target network of a closure": target_network,
    "generator of TensorFlow": generator_of_tensorflow,
}


@pytest.mark.parametrize("name", SAVED)
def test_variables_of_other_objects_are_restored(name, tmp_path):
    if name == "generator of TensorFlow" and keras.backend.backend() != "tensorflow":
        pytest.skip("needs TensorFlow")
    if name == "target network of a closure" and keras.backend.backend() == "jax":
        pytest.skip("a compiled step of JAX does not see that a callback changes variables")
    expected, received, messages = interrupt_and_resume(SAVED[name], tmp_path)
    assert not messages
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_array_equal(one, other)


class CallbackWithState(keras.callbacks.Callback):
    """Changes an object that `change` describes in each step."""

    def __init__(self, state, change):
        super().__init__()
        self.state, self.change = state, change

    def on_train_batch_end(self, batch, logs=None):
        self.change(self.state)


def step_of_pytorch():
    import torch

    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter])

    def change(optimizer):
        parameter.grad = torch.ones(2)
        optimizer.step()

    return optimizer, change


def generator_of_pytorch():
    import torch

    return torch.Generator(), lambda generator: torch.rand(2, generator=generator)


def tensor_of_pytorch():
    import torch

    return torch.zeros(2), lambda tensor: tensor.add_(1)


STATES = {
    "NumPy generator": lambda: (np.random.default_rng(0), lambda state: state.normal()),
    "NumPy random state": lambda: (np.random.RandomState(0), lambda state: state.normal()),
    "Python random": lambda: (random.Random(0), lambda state: state.random()),
    "list that grows": lambda: ([], lambda state: state.append(keras.Variable(0.0))),
    "PyTorch optimizer": step_of_pytorch,
    "PyTorch generator": generator_of_pytorch,
    "PyTorch tensor": tensor_of_pytorch,
}


@pytest.mark.parametrize("name", STATES)
def test_changed_objects_without_variables_are_named(name, tmp_path):
    if name.startswith("PyTorch") and keras.backend.backend() != "torch":
        pytest.skip("needs PyTorch")

    def build():
        return regression(), [CallbackWithState(*STATES[name]())], []

    messages = interrupt_and_resume(build, tmp_path)[2]
    assert len(messages) == 1 and "changed attributes CallbackWithState.state" in messages[0]


def test_state_of_a_generator_of_a_layer_is_named(tmp_path):
    class Noise(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.generator = np.random.default_rng(0)
            self.last = None

        def call(self, inputs):
            self.last = inputs + self.generator.normal()
            return self.last

    def build():
        model = keras.Sequential([keras.Input((4,)), Noise(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=True)
        return model, [], []

    if keras.backend.backend() == "jax":
        pytest.skip("JAX traces the step, so the number is drawn once")
    messages = interrupt_and_resume(build, tmp_path)[2]
    assert len(messages) == 1 and "changed attributes Noise.generator, which" in messages[0]
