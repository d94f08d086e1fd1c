"""Models that are built from the first batch have the weights of plain `model.fit`."""

import contextlib

import keras
import numpy as np
import pytest

from keras_attn.training import fit
from tests.backend import requires_tensorflow
from tests.slow_cases import all_slow_but
from tests.training.toy_training import InterruptAt, SumBatches

STEPS = SumBatches.steps_per_epoch
layers = keras.layers


def sequential():
    return keras.Sequential([layers.Dense(4, "relu"), layers.Dense(1)])


class Lazy(layers.Layer):
    """Creates its parts in `build`, with seeds that depend on the order of building."""

    def build(self, shape):
        self.first = layers.Dense(shape[-1], "tanh")
        self.first.build(shape)
        self.normalization = layers.BatchNormalization()
        self.normalization.build(shape)

    def call(self, inputs, training=False):
        return self.normalization(self.first(inputs), training=training)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.lazy = [Lazy(), layers.Dense(2)]
        self.last = layers.Dense(1)

    def call(self, inputs, training=False):
        for layer in self.lazy:
            inputs = layer(inputs, training=training)
        return self.last(inputs)


class WithBranch(Subclassed):
    """Reads the values of its inputs, so it cannot be built from their shapes."""

    def call(self, inputs, training=False):
        if float(keras.ops.max(inputs)) > 0:
            inputs = self.lazy[0](inputs, training=training)
        return self.last(inputs)


class WithoutCall(keras.Model):
    """Has a `train_step` of built parts, as a GAN."""

    def __init__(self):
        super().__init__()
        self.part = keras.Sequential([keras.Input((4,)), layers.Dense(1)])

    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self.part(x) - y) ** 2)
        variables = self.part.trainable_variables
        self.update(tape.gradient(loss, variables), variables)
        return {"loss": loss}

    def update(self, gradients, variables):
        self.optimizer.apply(gradients, variables)


class TwoOptimizers(WithoutCall):
    """Has an optimizer besides that of `compile`, as a GAN."""

    def __init__(self, is_built=True):
        super().__init__()
        self.second = keras.optimizers.Adam(0.1)
        if is_built:
            self.second.build(self.part.trainable_variables)

    def update(self, gradients, variables):
        self.second.apply(gradients, variables)


def compiled(make, **settings):
    keras.utils.set_random_seed(3)
    model = make()
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    loss = None if isinstance(model, WithoutCall) else "mse"
    model.compile(optimizer, loss, **settings)
    return model


def plain_weights(make, scope=contextlib.nullcontext):
    with scope():
        model = compiled(make)
    name = "dataset" if keras.backend.backend() == "tensorflow" else "stream"
    data = getattr(SumBatches(), name)()
    model.fit(data, steps_per_epoch=STEPS, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def assert_resumes(make, directory, scope=contextlib.nullcontext):
    expected = plain_weights(make, scope)
    with scope():
        interrupted = compiled(make)
    arguments = {"epochs": 2, "directory": directory, "save_steps": 1, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, SumBatches(), callbacks=[InterruptAt(2)], **arguments)
    with scope():
        resumed = compiled(make)
    fit(resumed, SumBatches(), **arguments)
    for received, each in zip(resumed.get_weights(), expected, strict=True):
        np.testing.assert_allclose(received, each, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("make", all_slow_but(Subclassed, cases=[sequential, Subclassed]))
def test_unbuilt_model_resumes_with_the_weights_of_keras(make, tmp_path):
    assert_resumes(make, tmp_path)


@requires_tensorflow("Keras builds the model itself on other backends, which needs `call`")
@pytest.mark.parametrize("make", [WithoutCall, TwoOptimizers])
def test_model_without_call_resumes(make, tmp_path):
    assert_resumes(make, tmp_path)


@requires_tensorflow("Keras builds the model itself on other backends, which needs `call`")
def test_optimizer_without_state_is_rejected_with_a_directory(tmp_path):
    model = compiled(lambda: TwoOptimizers(is_built=False))
    with pytest.raises(ValueError, match=r"second=Adam that is not built.*model.second.build"):
        fit(model, SumBatches(), epochs=1, directory=tmp_path, verbose=0)


@requires_tensorflow("Keras builds the model itself on other backends, which needs `call`")
def test_optimizer_without_state_in_a_dict_is_rejected_with_a_directory(tmp_path):
    model = compiled(WithoutCall)
    model.optimizers = {"part": keras.optimizers.Adam(0.1)}
    with pytest.raises(ValueError, match=r"optimizers\['part'\]=Adam that is not built"):
        fit(model, SumBatches(), epochs=1, directory=tmp_path, verbose=0)


@requires_tensorflow("Keras builds the model itself on other backends, which needs `call`")
def test_unbuilt_layer_of_a_model_without_call_is_rejected_with_a_directory(tmp_path):
    model = compiled(WithoutCall)
    model.part = sequential()
    model.augmentation = keras.Sequential([layers.RandomFlip()])  # has no variables to restore
    with pytest.raises(
        ValueError, match=r"with unbuilt layers \['dense\w*', 'dense\w*'\].*once before"
    ):
        fit(model, SumBatches(), epochs=1, directory=tmp_path, verbose=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@requires_tensorflow("the strategy is of TensorFlow")
def test_unbuilt_model_resumes_under_a_strategy(tmp_path):
    import tensorflow as tf

    assert_resumes(sequential, tmp_path, tf.distribute.MirroredStrategy(["CPU:0"]).scope)


@requires_tensorflow("Keras rejects the model itself on other backends")
def test_model_that_needs_values_is_rejected_with_a_directory(tmp_path):
    model = compiled(WithBranch, run_eagerly=True)
    with pytest.raises(ValueError, match="(?s)Expected a built model.*Call the model once"):
        fit(model, SumBatches(), epochs=1, directory=tmp_path, verbose=0)
    model(SumBatches().batch(0)[0])
    fit(model, SumBatches(), epochs=1, directory=tmp_path, verbose=0)
    without = fit(compiled(WithBranch, run_eagerly=True), SumBatches(), epochs=1, verbose=0)
    assert np.isfinite(without.history["loss"]).all()
