"""The history of a resumed training has the values and types of an uninterrupted one."""

import keras
import numpy as np
import pytest

from keras_attn.training import fit
from keras_attn.training._training_checkpoint import TrainingCheckpoint
from tests.training.toy_training import SumBatches


class Counts(keras.metrics.Metric):
    """Returns a dict of a number and an array."""

    def __init__(self):
        super().__init__(name="counts")
        self.steps = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.steps.assign_add(1.0)

    def result(self):
        return {"steps": self.steps + 0.0, "both": keras.ops.ones((2,)) * self.steps}


class Log(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["rank"] = epoch
        logs["name"] = f"epoch {epoch}"


class InterruptEpoch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def compiled():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", "mse", metrics=[keras.metrics.F1Score(threshold=0.5), Counts()])
    return model


def test_arrays_in_the_logs_are_restored(tmp_path):
    expected = fit(compiled(), SumBatches(), epochs=2, callbacks=[Log()], verbose=0).history
    assert isinstance(expected["both"][0], np.ndarray)
    arguments = {"epochs": 2, "directory": tmp_path, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(compiled(), SumBatches(), callbacks=[Log(), InterruptEpoch()], **arguments)
    received = fit(compiled(), SumBatches(), callbacks=[Log()], **arguments).history
    assert received.keys() == expected.keys()
    for name, values in expected.items():
        for one, other in zip(received[name], values, strict=True):
            assert type(one) is type(other)
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
            np.testing.assert_array_equal(one, other)


def test_an_epoch_of_more_batches_is_rejected_before_the_first_step(tmp_path):
    model = compiled()
    x, y = np.ones((9, 4)), np.ones((9, 1))
    checkpoint = TrainingCheckpoint(tmp_path, steps_per_epoch=2, epochs=1)
    with pytest.raises(ValueError, match="Expected 2 batches in an epoch.* Received: 3 batches"):
        model.fit(x, y, batch_size=3, callbacks=[checkpoint], verbose=0)
    assert int(model.optimizer.iterations) == 0


def test_an_epoch_of_more_batches_is_rejected_at_its_end_if_their_number_is_unknown(tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path, steps_per_epoch=2, epochs=1)
    checkpoint.set_params({"steps": None})
    checkpoint.set_model(compiled())
    checkpoint.on_train_begin()
    checkpoint.on_epoch_begin(0)
    for batch in range(3):
        checkpoint.on_train_batch_begin(batch)
        checkpoint.on_train_batch_end(batch)
    with pytest.raises(ValueError, match="Expected 2 batches in an epoch.* Received: 3 batches"):
        checkpoint.on_epoch_end(0, {"loss": 1.0})
    checkpoint.on_train_end()
