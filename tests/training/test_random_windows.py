"""Windows of a long sequence at random positions, and windows for an evaluation."""

import itertools

import keras
import numpy as np
import pytest

from keras_attn.training import RandomWindows, fit, overlapping_windows
from tests.training.toy_training import InterruptAt

IDS = np.arange(10, 110)


def test_windows_are_parts_of_the_sequence_at_all_positions():
    windows = RandomWindows(IDS, 8, 4, seed=3)
    assert windows.steps_per_epoch == len(windows) == 3
    starts = set()
    for inputs, labels in itertools.islice(windows.stream(), 300):
        assert inputs.shape == labels.shape == (4, 8) and inputs.dtype == labels.dtype == "int32"
        np.testing.assert_array_equal(inputs, inputs[:, :1] + np.arange(8))
        np.testing.assert_array_equal(labels, inputs + 1)
        starts |= set(inputs[:, 0].tolist())
    assert starts == set(range(10, 102))


def test_windows_depend_on_the_seed_and_the_step():
    windows = RandomWindows(IDS, 8, 4, seed=3)
    later = next(windows.stream(5))
    np.testing.assert_array_equal(later, windows.batch(5))
    np.testing.assert_array_equal(later, RandomWindows(IDS, 8, 4, seed=3).batch(5))
    assert (later[0] != RandomWindows(IDS, 8, 4, seed=4).batch(5)[0]).any()
    assert (later[0] != windows.batch(5 + len(windows))[0]).any()
    if keras.backend.backend() == "tensorflow":
        (from_dataset,) = windows.dataset(5).take(1)
        np.testing.assert_array_equal(from_dataset[1], later[1])


def test_start_tokens_are_inputs_but_not_labels():
    ids = [1, 5, 2, 1, 6, 7, 2, 1, 8]
    windows = RandomWindows(ids, 4, 16, pad_token_id=-1, start_token_id=1)
    inputs, labels = windows.batch(0)
    assert (inputs == 1).any() and set(labels.flat) == {-1, 2, 5, 6, 7, 8}
    (first, *_), (expected, *_) = overlapping_windows(ids, 8, start_token_id=1)
    assert first.tolist() == [1, 5, 2, 1, 6, 7, 2, 1]
    assert expected.tolist() == [5, 2, 0, 6, 7, 2, 0, 8]


@pytest.mark.parametrize("window", [1, 2, 7, 8])
@pytest.mark.parametrize("length", [2, 5, 9, 10, 12, 13, 37])
def test_overlapping_windows_predict_each_token_once(length, window):
    ids = np.arange(10, 10 + length)
    inputs, labels = overlapping_windows(ids, window)
    assert inputs.shape == labels.shape and inputs.shape[1] == window
    assert sorted(labels[labels != 0]) == ids[1:].tolist()
    rows, columns = np.nonzero(labels)
    np.testing.assert_array_equal(labels[rows, columns], inputs[rows, columns] + 1)
    assert (columns[rows > 0] >= window // 2).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: RandomWindows(IDS, 100, 1), "more ids than window=100. Received: 100 ids"),
        (lambda: RandomWindows(IDS, 9, 1, seed=-1), "seed to be an integer of at least 0"),
        (lambda: RandomWindows(IDS[None], 9, 1), "one-dimensional array of integers"),
        (lambda: overlapping_windows([5], 4), "at least two ids.*Received: 1 ids"),
        (lambda: overlapping_windows([5, -1], 4), r"Received: ids\[1\]=-1"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_fit_resumes_with_the_windows_of_the_next_steps(tmp_path):
    def compiled():
        keras.utils.set_random_seed(1)
        layers = [keras.Input((8,), dtype="int32"), keras.layers.Embedding(110, 4)]
        model = keras.Sequential([*layers, keras.layers.Dense(110)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.02), loss)
        return model

    windows = RandomWindows(IDS, 8, 4)
    model, interrupted, resumed = compiled(), compiled(), compiled()
    fit(model, windows, epochs=3, verbose=0)
    options = {"directory": tmp_path, "save_steps": 2, "verbose": 0, "epochs": 3}
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, windows, callbacks=[InterruptAt(5)], **options)
    fit(resumed, windows, **options)
    for received, expected in zip(resumed.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)
