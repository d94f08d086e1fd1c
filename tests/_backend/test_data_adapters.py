"""Batches that `model.fit` of Keras reads without further arguments."""

import keras
import numpy as np
import pytest

from keras_attn._backend.data_adapters import EpochBatches
from keras_attn.training import compile_for_training, fit
from tests.training.toy_training import ToyBatches, toy_model


class Recorded(ToyBatches, EpochBatches):
    """Batches of different lengths that record the steps that are read."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps = []

    def stream(self, start_step=0):
        for step, batch in enumerate(super().stream(start_step), start_step):
            self.steps.append(step)
            length = 4 + step % 2
            inputs, labels = batch
            yield {name: ids[:, :length] for name, ids in inputs.items()}, labels[:, :length]


@pytest.fixture(scope="module")
def model():
    return compile_for_training(toy_model(), learning_rate=0.02)


def test_fit_of_keras_equals_our_fit(model):
    first = model.get_weights()
    variables = model.optimizer.variables
    values = [keras.ops.convert_to_numpy(variable).copy() for variable in variables]
    results = []
    for train in (fit, keras.Model.fit):
        model.set_weights(first)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        data = Recorded(), Recorded(sizes=(5, 2), seed=1)
        logs = train(model, data[0], epochs=3, validation_data=data[1], verbose=0).history
        results.append((model.get_weights(), logs))
    np.testing.assert_equal(*results)


def test_each_training_begins_with_the_first_step(model):
    batches = Recorded(sizes=(2, 2))
    for _ in range(2):
        batches.steps.clear()
        model.fit(batches, epochs=3, verbose=0)
        read = [
            step for index, step in enumerate(batches.steps) if step != batches.steps[index - 1]
        ]
        assert read[-6:] == list(range(6))
    batches.steps.clear()
    model.evaluate(batches, verbose=0)
    assert batches.steps[-2:] == [0, 1]


def test_epochs_of_some_steps_continue(model):
    batches = Recorded(sizes=(2, 2, 2, 2))
    model.fit(batches, epochs=6, steps_per_epoch=2, verbose=0)
    assert sorted(set(batches.steps)) == list(range(12))
