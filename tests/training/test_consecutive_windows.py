"""Truncated backpropagation: windows in order, carried states, gradients and resuming."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.training import CarryStates, ConsecutiveWindows, fit
from tests.contracts import numpy
from tests.training.toy_training import InterruptAt

IDS = np.random.default_rng(0).integers(1, 9, 100)

not_on_jax = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="Keras does not carry states in compiled steps of JAX"
)
not_on_torch = pytest.mark.skipif(
    keras.backend.backend() == "torch",
    reason="Keras overwrites the states of an RNN that the backward pass of PyTorch needs",
)


def make_model(window=5, rows=3, cell=keras.layers.GRU, dtype="float32"):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((window,), batch_size=rows, dtype="int32")
    embedded = keras.layers.Embedding(9, 4, dtype=dtype)(inputs)
    states = cell(6, return_sequences=True, stateful=True, dtype=dtype)(embedded)
    return keras.Model(inputs, keras.layers.Dense(9, dtype=dtype)(states))


def compiled(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss)
    return model


@pytest.mark.parametrize(("window", "rows"), [(5, 3), (1, 1), (33, 3), (99, 1)])
def test_consecutive_windows_contain_the_sequence_in_order(window, rows):
    windows = ConsecutiveWindows(IDS, window, rows)
    inputs, labels = (np.concatenate(each, axis=1) for each in zip(*windows, strict=True))
    length = 99 // (window * rows) * window
    assert windows.steps_per_epoch == len(windows) == length // window
    assert inputs.tolist() == [IDS[i * length : (i + 1) * length].tolist() for i in range(rows)]
    assert labels.tolist() == [
        IDS[i * length + 1 : (i + 1) * length + 1].tolist() for i in range(rows)
    ]


def test_consecutive_windows_of_a_later_step_are_those_of_the_same_step_in_its_epoch():
    windows = ConsecutiveWindows(IDS, 5, 3)
    streamed = list(itertools.islice(windows.stream(4), 4))
    for step, (inputs, labels) in zip(range(4, 8), streamed, strict=True):
        expected = list(windows)[step % 6]
        assert (inputs == expected[0]).all() and (labels == expected[1]).all()
    if keras.backend.backend() == "tensorflow":
        for received, expected in zip(windows.dataset(4).take(4), streamed, strict=True):
            assert all((a.numpy() == b).all() for a, b in zip(received, expected, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 2]], 1, 1), "one-dimensional array of integers. Received: ids of shape (1, 2)"),
        (([1.0, 2.0], 1, 1), "dtype float64"),
        (([1, 2, 3, 4], 2, 2), "at least window * batch_size + 1 = 5 elements. Received: 4"),
        (([1, 2, 3, 4], 0, 2), "window"),
    ],
)
def test_consecutive_windows_refuse_wrong_arguments(arguments, message):
    with pytest.raises(ValueError) as error:
        ConsecutiveWindows(*arguments)
    assert message in str(error.value)


def test_states_carried_over_windows_give_the_outputs_of_the_whole_sequence():
    windows = ConsecutiveWindows(IDS, 5, 3)
    model, whole = make_model(), make_model(window=30)
    whole.set_weights(model.get_weights())
    inputs = [inputs for inputs, _ in windows]
    outputs = np.concatenate([numpy(model(each)) for each in inputs], axis=1)
    expected = numpy(whole(np.concatenate(inputs, axis=1)))
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


@pytest.mark.parametrize("cell", [keras.layers.SimpleRNN, keras.layers.LSTM])
def test_gradients_of_a_window_equal_finite_differences_with_a_fixed_state(cell):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("takes gradients with tf.GradientTape")
    import tensorflow as tf

    model = make_model(cell=cell, dtype="float64")
    (first, _), (second, labels) = itertools.islice(ConsecutiveWindows(IDS, 5, 3), 2)
    model(first)
    layer = next(each for each in model.layers if getattr(each, "stateful", False))
    carried = [np.array(each) for each in layer.states]
    assert max(np.abs(each).max() for each in carried) > 0.01

    def loss():
        for variable, value in zip(layer.states, carried, strict=True):
            variable.assign(value)
        logits = model(second)
        return ops.mean(ops.sparse_categorical_crossentropy(labels, logits, from_logits=True))

    with tf.GradientTape() as tape:
        value = loss()
    weights = [each.value for each in model.trainable_variables]
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=each.shape) for each in weights]
    gradients = tape.gradient(value, weights)
    expected = sum(
        float(np.sum(np.array(tf.convert_to_tensor(g)) * d))
        for g, d in zip(gradients, directions, strict=True)
    )
    ends = []
    for sign in (1, -1):
        for weight, direction in zip(model.trainable_variables, directions, strict=True):
            weight.assign(weight + sign * 1e-6 * direction)
        ends.append(float(loss()))
        for weight, direction in zip(model.trainable_variables, directions, strict=True):
            weight.assign(weight - sign * 1e-6 * direction)
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-6, expected, rtol=1e-6)


class ResetStates(keras.callbacks.Callback):
    """Resets the states as programs for Keras do."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.layers[2].reset_state()


@not_on_jax
@not_on_torch
@pytest.mark.parametrize("reset", [CarryStates, ResetStates])
def test_fit_resumes_with_the_states_of_the_interrupted_window(reset, tmp_path):
    windows = ConsecutiveWindows(IDS, 5, 3)
    model = compiled(make_model())
    fit(model, windows, epochs=3, verbose=0, callbacks=[reset()])
    interrupted = compiled(make_model())
    arguments = {"directory": tmp_path, "save_steps": 2, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, windows, epochs=3, callbacks=[reset(), InterruptAt(9)], **arguments)
    resumed = compiled(make_model())
    fit(resumed, windows, epochs=3, callbacks=[reset()], **arguments)
    for received, expected in zip(resumed.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)
    states = zip(CarryStates.states(resumed), CarryStates.states(model), strict=True)
    assert all((received == expected).all() for received, expected in states)


@not_on_jax
@not_on_torch
def test_carry_states_validates_from_zero_states():
    windows, validation = ConsecutiveWindows(IDS, 5, 3), ConsecutiveWindows(IDS[::-1], 5, 3)
    model = compiled(make_model())
    history = fit(
        model, windows, epochs=2, validation_data=validation, verbose=0, callbacks=[CarryStates()]
    ).history
    logits = np.concatenate([numpy(model(inputs)) for inputs, _ in validation], axis=1)
    labels = np.concatenate([labels for _, labels in validation], axis=1)
    exp = np.exp(logits)
    picked = np.take_along_axis(exp / exp.sum(-1, keepdims=True), labels[..., None], -1)
    np.testing.assert_allclose(history["val_loss"][-1], -np.log(picked).mean(), rtol=1e-5)


class Predict(keras.callbacks.Callback):
    """Calls the model at the end of each epoch, as a callback that samples texts does."""

    def __init__(self, inputs):
        super().__init__()
        self.inputs = inputs
        self.first_states = []

    def on_epoch_begin(self, epoch, logs=None):
        self.first_states.append(max(abs(s).max() for s in CarryStates.states(self.model)))

    def on_epoch_end(self, epoch, logs=None):
        self.model.predict(self.inputs, verbose=0)


@not_on_jax
@not_on_torch
@pytest.mark.filterwarnings("ignore:.*changed attributes Predict.first_states")
def test_carry_states_trains_from_zero_states_after_a_prediction(tmp_path):
    windows = ConsecutiveWindows(IDS, 5, 3)
    plain, model = compiled(make_model()), compiled(make_model())
    fit(plain, windows, epochs=3, verbose=0, callbacks=[CarryStates()])
    predict = Predict(windows.batch(0)[0])
    model.predict(predict.inputs, verbose=0)
    assert max(abs(state).max() for state in CarryStates.states(model)) > 0
    for epochs in (2, 3):  # the second call resumes between two epochs
        callbacks = [CarryStates(), predict]
        fit(model, windows, epochs=epochs, directory=tmp_path, callbacks=callbacks, verbose=0)
    assert predict.first_states == [0.0] * 3
    for received, expected in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)


@not_on_jax
@not_on_torch
def test_carry_states_continues_after_a_validation_within_an_epoch():
    windows = ConsecutiveWindows(IDS, 5, 3)
    carry = CarryStates()

    class Evaluate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            before = CarryStates.states(self.model)
            assert max(abs(state).max() for state in before) > 0
            self.model.evaluate(*windows.batch(0), batch_size=3, verbose=0, callbacks=[carry])
            for received, expected in zip(CarryStates.states(self.model), before, strict=True):
                np.testing.assert_array_equal(received, expected)

    fit(compiled(make_model()), windows, epochs=1, verbose=0, callbacks=[carry, Evaluate()])


def test_carry_states_refuses_jax():
    if keras.backend.backend() != "jax":
        pytest.skip("is about JAX")
    with pytest.raises(RuntimeError, match="Received: backend='jax'"):
        CarryStates().set_model(make_model())


@not_on_jax
def test_carry_states_refuses_a_model_without_states():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="stateful=True"):
        CarryStates().set_model(model)


def test_windows_warn_of_ids_that_losses_ignore():
    ids = IDS.copy()
    ids[7] = 0
    with pytest.warns(UserWarning, match=r"padding id 0.*Received: ids\[7\]=0"):
        ConsecutiveWindows(ids, 5, 3)
    with pytest.warns(UserWarning, match=r"padding id 9.*Received: ids\[5\]=9"):
        ConsecutiveWindows([*ids[:5], 9, *ids], 5, 3, pad_token_id=9)
    inputs, _ = ConsecutiveWindows(ids, 5, 3, pad_token_id=None).batch(1)
    assert inputs[0].tolist() == ids[5:10].tolist()
    ids[7] = -1
    with pytest.raises(ValueError, match=r"ids of at least 0.*Received: ids\[7\]=-1"):
        ConsecutiveWindows(ids, 5, 3, pad_token_id=None)


@pytest.mark.parametrize("step", [-1, 0.5, None])
def test_windows_refuse_negative_steps(step):
    windows = ConsecutiveWindows(IDS, 5, 3)
    with pytest.raises(ValueError, match=f"step to be an integer >= 0. Received: step={step}"):
        windows.batch(step)
    for method in (windows.stream, windows.dataset):
        with pytest.raises(ValueError, match=f"Received: start_step={step}"):
            method(step)
