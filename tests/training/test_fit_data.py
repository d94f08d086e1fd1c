"""The data arguments of `fit`, compared with `model.fit`."""

import inspect
import re

import keras
import numpy as np
import pytest

from keras_attn.training import fit
from tests.backend import requires_tensorflow

ROWS, EPOCHS = 17, 3


def rows_and_labels(rows=ROWS, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, 3)).astype("float32")
    return x, (x.sum(axis=1) > 0).astype("int32")


X, Y = rows_and_labels()
WEIGHTS = np.linspace(0.5, 2, ROWS).astype("float32")
VALIDATION = rows_and_labels(7, seed=1)


def new_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="softmax")])
    model.layers[0].kernel.assign(np.arange(6).reshape(3, 2) / 10 - 0.3)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        jit_compile=False,
    )
    return model


@pytest.fixture(scope="module")
def restart():
    """Returns a function that returns the same model with its first weights."""
    model = new_model()
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    values = [keras.ops.convert_to_numpy(variable).copy() for variable in variables]

    def restart():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return model

    return restart


class Interrupt(keras.callbacks.Callback):
    """Raises an error at the beginning of a step."""

    def __init__(self, step):
        super().__init__()
        self.steps_left = step

    def on_train_batch_begin(self, batch, logs=None):
        self.steps_left -= 1
        if self.steps_left < 0:
            raise KeyboardInterrupt


def trained(model, train=fit, **arguments):
    """Returns the weights and the logs of a training."""
    logs = train(model, **arguments, verbose=0).history
    return model.get_weights(), logs


def resumed(model, step, make_arguments, directory):
    """Returns the weights of a training that was interrupted at a step.

    Args:
        model: Function that returns a model with its first weights.
    """
    arguments = {"directory": directory, "save_steps": 1, "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(model(), **make_arguments(), **arguments, callbacks=[Interrupt(step)])
    resuming = model()
    fit(resuming, **make_arguments(), **arguments)
    return resuming.get_weights()


def assert_equal(trained, expected):
    np.testing.assert_equal(trained, expected)


EQUAL = {
    "x": {},
    "batch_size": {"batch_size": 5},
    "epochs": {"epochs": 1},
    "validation_split": {"validation_split": 0.3, "batch_size": 4, "sample_weight": WEIGHTS},
    "validation_data": {"validation_data": VALIDATION, "batch_size": 5},
    "shuffle": {"shuffle": False},
    "class_weight": {"class_weight": {1: 3.0}},
    "sample_weight": {"sample_weight": WEIGHTS},
    "steps_per_epoch": {"steps_per_epoch": 3},
    "validation_steps": {"validation_data": VALIDATION, "validation_steps": 2, "batch_size": 3},
    "validation_batch_size": {"validation_data": VALIDATION, "validation_batch_size": 2},
    "validation_freq": {"validation_data": VALIDATION, "validation_freq": 2},
}
"""Arguments with which `fit` equals `model.fit`, with a directory and without."""

REFUSED = {"initial_epoch": 1}
"""Arguments that `fit` rejects with a directory."""

OWN_TESTS = {"y", "verbose", "callbacks"}
"""Arguments that most tests of `fit` pass."""


def test_every_argument_of_keras_is_tested():
    ours, theirs = (inspect.signature(each).parameters for each in (fit, keras.Model.fit))
    assert list(theirs)[1:] == list(ours)[1 : len(theirs)]  # the same names in the same order
    assert [theirs[name].default for name in list(theirs)[1:]] == [
        ours[name].default for name in list(theirs)[1:]
    ]
    assert set(theirs) - {"self"} == {*EQUAL, *REFUSED, *OWN_TESTS}


@pytest.mark.parametrize("name", EQUAL)
def test_argument_equals_keras(name, restart, tmp_path):
    arguments = {"x": X, "y": Y, "epochs": 2, "shuffle": False, **EQUAL[name]}
    expected = trained(restart(), keras.Model.fit, **arguments)
    assert_equal(trained(restart(), **arguments), expected)
    assert_equal(trained(restart(), **arguments, directory=tmp_path), expected)


def test_initial_epoch(restart, tmp_path):
    arguments = {"x": X, "y": Y, "epochs": 3, "initial_epoch": 2, "shuffle": False}
    expected = trained(restart(), keras.Model.fit, **arguments)
    assert_equal(trained(restart(), **arguments), expected)
    with pytest.raises(ValueError, match="Received: initial_epoch=2"):
        fit(restart(), **arguments, directory=tmp_path / "state")
    history = fit(restart(), ToyRows(), epochs=3, initial_epoch=1, verbose=0)
    assert history.epoch == [1, 2] and len(history.history["loss"]) == 2


class ToyRows:
    """Batches of 5 rows with `steps_per_epoch`, `stream` and `dataset`."""

    steps_per_epoch = 2

    def stream(self, start_step=0):
        while True:
            yield X[5 * (start_step % 2) :][:5], Y[5 * (start_step % 2) :][:5]
            start_step += 1

    def dataset(self, start_step=0):
        import tensorflow as tf

        specs = tf.TensorSpec((None, 3), "float32"), tf.TensorSpec((None,), "int32")
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=specs
        )


@pytest.mark.parametrize("shuffle", [True, "batch", False])
def test_arrays_resume_at_any_step(restart, tmp_path, shuffle):
    def arguments():
        keras.utils.set_random_seed(0)
        return {"x": X, "y": Y, "batch_size": 5, "epochs": 2, "shuffle": shuffle}

    expected, _ = trained(restart(), **arguments(), directory=tmp_path / "whole")
    for step in (1, 4, 6) if shuffle is True else (3,):
        weights = resumed(restart, step, arguments, tmp_path / str(step))
        assert_equal(weights, expected)


def test_seed_of_arrays_is_in_the_state(restart, tmp_path):
    def arguments():
        keras.utils.set_random_seed(next(seeds))  # a process without a fixed seed
        return {"x": X, "y": Y, "batch_size": 5, "epochs": 2}

    seeds = iter((1, 1, 2))
    expected, _ = trained(restart(), **arguments(), directory=tmp_path / "whole")
    assert_equal(resumed(restart, 3, arguments, tmp_path / "parts"), expected)


def batches_of(shuffle, directory, epochs=2):
    """Returns the rows of each batch that a model with its own training step gets."""
    seen = []

    class Recorder(keras.Model):
        def train_step(self, *data):
            seen.append(keras.ops.convert_to_numpy(data[-1]))
            return {"loss": keras.ops.zeros(())}

    inputs = keras.Input((1,))
    model = Recorder(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", run_eagerly=True)
    x = np.arange(7, dtype="float32")[:, None]
    fit(
        model,
        x,
        batch_size=3,
        epochs=epochs,
        shuffle=shuffle,
        directory=directory,
        verbose=0,
    )
    return [batch[:, 0].astype(int).tolist() for batch in seen]


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX compiles train_step")
def test_order_of_rows(tmp_path):
    batches = batches_of(True, tmp_path / "rows")
    assert [len(batch) for batch in batches] == [3, 3, 1] * 2
    first, second = sum(batches[:3], []), sum(batches[3:], [])
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    batches = batches_of("batch", tmp_path / "batch", epochs=4)
    assert [sorted(each) for each in batches] == [[0, 1, 2], [3, 4, 5], [6]] * 4
    assert len({str(each) for each in batches}) > 3
    assert batches_of(False, tmp_path / "none", 1) == [[0, 1, 2], [3, 4, 5], [6]]


def test_nested_arrays_tensors_and_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    inputs = {name: keras.Input((size,), name=name) for name, size in (("a", 3), ("b", 1))}
    joined = keras.layers.Concatenate()(list(inputs.values()))
    outputs = [keras.layers.Dense(1, name=name)(joined) for name in ("c", "d")]
    model = keras.Model(inputs, outputs)
    model.compile("sgd", ["mse", "mae"], weighted_metrics=[["mae"], ["mae"]])
    first = model.get_weights()
    frame = pandas.DataFrame(X.astype("float64"))
    arguments = {
        "x": {"a": frame, "b": pandas.Series(WEIGHTS)},
        "y": [keras.ops.convert_to_tensor(X[:, :1]), X[:, 1:2].astype("float64")],
        "sample_weight": WEIGHTS,
        "batch_size": 6,
        "shuffle": False,
    }
    expected = trained(model, keras.Model.fit, **arguments)
    model.set_weights(first)
    model.optimizer.iterations.assign(0)
    assert_equal(trained(model, **arguments, directory=tmp_path), expected)


def test_single_array_reaches_train_step_as_it_is(tmp_path):
    class Autoencoder(keras.Model):
        def train_step(self, *state_and_data):
            assert not isinstance(state_and_data[-1], (tuple, list))
            return super().train_step(*state_and_data)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return keras.ops.mean(keras.ops.square(y_pred - x))

    inputs = keras.Input((3,))
    model = Autoencoder(inputs, keras.layers.Dense(3, kernel_initializer="ones")(inputs))
    model.compile("sgd", jit_compile=False)
    first = model.get_weights()
    arguments = {"x": X, "batch_size": 5, "shuffle": False}
    expected = trained(model, keras.Model.fit, **arguments)
    model.set_weights(first)
    assert_equal(trained(model, **arguments, directory=tmp_path), expected)


class ShuffledRows(keras.utils.PyDataset):
    """The data generator of many tutorials."""

    def __init__(self, batch_size=5, shuffle=False, **kwargs):
        super().__init__(**kwargs)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.order = np.arange(ROWS)
        self.epoch = 0

    def __len__(self):
        return -(-ROWS // self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return X[rows], Y[rows]

    def on_epoch_end(self):
        self.epoch += 1
        self.order = np.roll(self.order, self.epoch)
        if self.shuffle:
            np.random.shuffle(self.order)


class CountedRows(ShuffledRows):
    """Also changes at the beginning of an epoch."""

    def on_epoch_begin(self):
        self.order = self.order[::-1]


@pytest.mark.parametrize("kind", [pytest.param(ShuffledRows, marks=pytest.mark.slow), CountedRows])
def test_dataset_equals_keras_and_resumes(kind, tmp_path):
    def arguments():
        return {
            "x": kind(),
            "epochs": EPOCHS,
            "shuffle": False,
            "class_weight": {1: 2.0},
            "validation_data": kind(batch_size=3),
            "validation_freq": 2,
        }

    expected = trained(new_model(), keras.Model.fit, **arguments())
    assert_equal(trained(new_model(), **arguments(), directory=tmp_path / "whole"), expected)
    for step in (2, 8):
        assert_equal(resumed(new_model, step, arguments, tmp_path / str(step)), expected[0])


@pytest.mark.parametrize("workers", [1, 2])
def test_shuffled_dataset_resumes(restart, tmp_path, workers):
    def arguments():
        return {"x": ShuffledRows(shuffle=True, workers=workers), "epochs": 2}

    np.random.seed(0)
    expected, _ = trained(restart(), **arguments(), directory=tmp_path / "whole")
    np.random.seed(0)
    assert_equal(resumed(restart, 3, arguments, tmp_path / "parts"), expected)


def test_endless_dataset_resumes(restart, tmp_path):
    class Endless(keras.utils.PyDataset):
        num_batches = None

        def __getitem__(self, index):
            rows = (np.arange(5) + index) % ROWS
            return X[rows], Y[rows]

    def arguments():
        return {"x": Endless(), "steps_per_epoch": 4, "epochs": 2, "shuffle": False}

    expected = trained(restart(), keras.Model.fit, **arguments())
    assert_equal(trained(restart(), **arguments(), directory=tmp_path / "whole"), expected)
    assert_equal(resumed(restart, 3, arguments, tmp_path / "parts"), expected[0])
    with pytest.raises(ValueError, match=r"steps_per_epoch=None and the methods \[\]"):
        fit(restart(), Endless(), directory=tmp_path / "state")


class RandomRows(ShuffledRows):
    """Adds noise from the global random generator."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + np.random.normal(size=x.shape).astype("float32"), y


def test_dataset_that_cannot_be_repeated_is_refused(restart, tmp_path):
    state = tmp_path / "state"
    for arguments in ({"x": RandomRows()}, {"x": X, "y": Y, "validation_data": RandomRows()}):
        with pytest.raises(ValueError, match="Received: RandomRows, whose batch 0 differs"):
            fit(restart(), **arguments, directory=state)
    with pytest.raises(ValueError, match="workers=2, use_multiprocessing=False. Use on_epoch_end"):
        fit(restart(), CountedRows(workers=2), directory=state)
    with pytest.raises(ValueError, match="number of batches of the PyDataset, 4, or None. Rec"):
        fit(restart(), ShuffledRows(), steps_per_epoch=2, directory=state)
    assert not state.exists()


def test_dataset_with_other_batches_is_refused(restart, tmp_path):
    used = ShuffledRows()

    def arguments():
        return {"x": used, "epochs": 2}

    with pytest.raises(ValueError, match="ShuffledRows, whose batch 0 differs. Create the dataset"):
        resumed(restart, 5, arguments, tmp_path)
    with pytest.warns(UserWarning, match="whose batch 0 differs"):
        fit(restart(), used, epochs=2, directory=tmp_path, on_mismatch="warn", verbose=0)


def test_changed_arrays_are_named(restart, tmp_path):
    fit(restart(), X, Y, directory=tmp_path, verbose=0)
    message = "data.arrays: saved .*; data.num_rows: saved 17, now 16"
    with pytest.raises(ValueError, match=message):
        fit(restart(), X[1:], Y[1:], epochs=2, directory=tmp_path, verbose=0)


WRONG = {
    "x=None": {"x": None},
    "'x': [17], 'y': [16]": {"y": Y[1:]},
    "y of type ndarray": {"x": ShuffledRows()},
    "sample_weight of type ndarray": {"x": ShuffledRows(), "y": None, "sample_weight": WEIGHTS},
    "batch_size of type int": {"x": ToyRows(), "y": None, "batch_size": 4},
    "class_weight of type dict": {"x": ToyRows(), "y": None, "class_weight": {0: 2.0}},
    "steps_per_epoch of type int": {"x": ToyRows(), "y": None, "steps_per_epoch": 3},
    "validation_split=0.5": {"x": ToyRows(), "y": None, "validation_split": 0.5},
    "validation_split=0.99, 17 rows": {"validation_split": 0.99},
    "class_weight=[1, 2]": {"class_weight": [1, 2]},
    "sample_weight=None with class_weight": {
        "class_weight": {0: 1.0},
        "sample_weight": WEIGHTS,
    },
    "y of type list": {"y": [Y, Y], "class_weight": {0: 1.0}},
    "batch_size=0": {"batch_size": 0},
    "steps_per_epoch=4, batch_size=3": {"batch_size": 3, "steps_per_epoch": 4},
    "x of type list that contains float": {"x": [[1.0], [2.0]]},
    "sample_weight of type list that contains str": {"sample_weight": ["a"]},
    "validation_data of type generator": {"validation_data": (each for each in ())},
    "x of type generator": {"x": (each for each in ()), "y": None},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_data_is_refused_before_anything_is_written(restart, tmp_path, message):
    arguments = {"x": X, "y": Y, **WRONG[message]}
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(restart(), **arguments, directory=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_former_order_of_arguments_warns_and_trains(restart, tmp_path):
    with pytest.warns(DeprecationWarning, match="epochs=2, directory"):
        history = fit(restart(), ToyRows(), 2, tmp_path, verbose=0)
    assert len(history.history["loss"]) == 2
    assert (tmp_path / "training.npz").exists()


def test_without_a_directory_generators_train(restart):
    def generator():
        return ((x, y) for x, y in ToyRows().stream())

    arguments = {"steps_per_epoch": 2, "epochs": 2, "validation_steps": 1, "shuffle": False}
    results = [
        trained(restart(), train, x=generator(), validation_data=generator(), **arguments)
        for train in (keras.Model.fit, fit)
    ]
    assert_equal(*results)


@requires_tensorflow("tf.data.Dataset")
def test_tensorflow_datasets(restart, tmp_path):
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    arguments = {"x": dataset, "validation_data": dataset}
    expected = trained(restart(), keras.Model.fit, **arguments, shuffle=False)
    assert_equal(trained(restart(), **arguments), expected)
    with pytest.raises(ValueError, match="Expected x to be arrays.*Received: x of type _BatchData"):
        fit(restart(), dataset, directory=tmp_path)
    arguments = {"x": X, "y": Y, "batch_size": 5, "shuffle": False, "validation_data": dataset}
    assert_equal(trained(restart(), **arguments, directory=tmp_path), expected)
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=0)
    arguments["validation_data"] = rows.batch(5)
    with pytest.raises(ValueError, match="validation_data of type .*whose first batch differs"):
        fit(restart(), **arguments, directory=tmp_path / "other")


def test_objects_of_batches_take_validation_arguments(restart):
    history = fit(
        restart(),
        ToyRows(),
        validation_data=ToyRows(),
        validation_steps=1,
        validation_freq=[2],
        epochs=2,
        verbose=0,
    ).history
    assert len(history["loss"]) == 2 and len(history["val_loss"]) == 1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="strings are tensors")
def test_tensors_of_strings_can_be_split_for_validation(tmp_path):
    import tensorflow as tf

    words = tf.constant([["a"], ["b"], ["b"], ["a"], ["b"], ["a"], ["a"], ["b"]])

    def train(run, **arguments):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((1,), dtype="string")
        ids = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(ids))
        model.compile("sgd", "mse")
        arguments |= {"validation_split": 0.25, "shuffle": False, "verbose": 0, "batch_size": 2}
        return run(model, words, np.arange(8.0), epochs=2, **arguments).history

    expected = train(lambda model, *data, **arguments: model.fit(*data, **arguments))
    assert train(fit, directory=tmp_path) == expected
