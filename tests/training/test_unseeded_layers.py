"""Layers without a seed get the random numbers of `model.fit`, also when a training resumes.

On PyTorch, they use the global generator, from which Keras' data loaders draw their seeds, too.
"""

import keras
import numpy as np
import pytest

from keras_attn.training import fit
from tests.training.toy_training import InterruptAt

STEPS, EPOCHS = 4, 3
INPUTS = np.random.default_rng(0).random((4 * STEPS, 3), "float32")
LABELS = INPUTS[:, :2]


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        rows = slice(4 * index, 4 * index + 4)
        return INPUTS[rows], LABELS[rows]


class EndlessRows(Rows):
    num_batches = None

    def __getitem__(self, index):
        return super().__getitem__(index % STEPS)


class Interruption(InterruptAt):
    """Needs no state when the training resumes."""

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


ARRAYS = {"x": INPUTS, "y": LABELS, "batch_size": 4}
DATA = {
    "arrays": lambda: ARRAYS,
    "arrays with validation": lambda: ARRAYS | {"validation_data": (INPUTS, LABELS)},
    "dataset": lambda: {"x": Rows()},
    "dataset with validation": lambda: {"x": Rows(), "validation_data": Rows()},
    "endless dataset": lambda: {"x": EndlessRows(), "steps_per_epoch": STEPS},
}


def compiled(is_built):
    keras.utils.set_random_seed(1)
    inputs = [keras.Input((3,))] if is_built else []
    model = keras.Sequential([*inputs, keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    return model


# Other backends have no global generator that Keras' loaders use.
KINDS = DATA if keras.backend.backend() == "torch" else ["arrays with validation"]


@pytest.mark.parametrize("is_built", [True, False], ids=["built", "unbuilt"])
@pytest.mark.parametrize("kind", KINDS)
def test_fit_equals_keras_without_and_with_interruptions(kind, is_built, tmp_path):
    arguments = {"epochs": EPOCHS, "shuffle": False, "verbose": 0}
    expected = compiled(is_built)
    history = expected.fit(**DATA[kind](), **arguments).history
    arguments |= {"save_steps": 1}
    uninterrupted = compiled(is_built)
    logs = fit(uninterrupted, **DATA[kind](), **arguments, directory=tmp_path / "whole").history
    assert logs == history
    arguments |= {"directory": tmp_path / "parts"}
    for steps in (2, 3, 4):
        with pytest.raises(KeyboardInterrupt):
            fit(compiled(is_built), **DATA[kind](), **arguments, callbacks=[Interruption(steps)])
    resumed = compiled(is_built)
    assert fit(resumed, **DATA[kind](), **arguments).history == history
    for model in (uninterrupted, resumed):
        for weights, other in zip(model.get_weights(), expected.get_weights(), strict=True):
            np.testing.assert_array_equal(weights, other)
