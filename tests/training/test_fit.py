import os
import shutil
import socket

import keras
import numpy as np
import pytest

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.checkpoint_file import read_checkpoint, write_checkpoint
from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    SequenceCrossentropy,
    compile_for_training,
    fit,
    make_strategy,
)
from keras_attn.training._training_checkpoint import TrainingCheckpoint
from tests.backend import precision, requires_tensorflow
from tests.slow_cases import slow_on_jax
from tests.training.toy_training import ToyBatches, toy_model, toy_translator

STEPS = 4
SGD = keras.optimizers.SGD


@pytest.fixture
def model():
    return compile_for_training(toy_model(), learning_rate=0.02)


def weights_of(model):
    return [weight.copy() for weight in model.get_weights()]


def test_trains_and_validates():
    model = compile_for_training(toy_translator(), learning_rate=0.02)
    validation = ToyBatches(seed=1)
    history = fit(
        model, ToyBatches(), epochs=8, validation_data=validation, callbacks=None, verbose=0
    )  # None as in Keras
    losses = history.history["loss"]
    assert len(losses) == len(history.history["val_loss"]) == 8
    assert losses[-1] < losses[0] - 0.02
    assert set(history.history) == {
        *("loss", "token_accuracy", "perplexity"),
        *("val_loss", "val_token_accuracy", "val_perplexity"),
    }


def test_a_finished_training_is_only_restored(model, tmp_path):
    first = fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    expected = weights_of(model)
    again = compile_for_training(toy_model(), learning_rate=0.01)
    second = fit(again, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    for old, new in zip(expected, weights_of(again), strict=True):
        np.testing.assert_array_equal(old, new)
    assert second.history == first.history and second.epoch == [0, 1]
    assert again.optimizer.iterations == 2 * STEPS


def test_the_callbacks_of_a_finished_training_know_their_model(model, tmp_path):
    """The process can be killed after the last epoch, before the weights are averaged."""
    averaged = []
    for trained in (model, compile_for_training(toy_model(), learning_rate=0.01)):
        average = AverageWeights(tmp_path / "average", num_epochs=2)
        directory = tmp_path / "state"
        fit(trained, ToyBatches(), epochs=2, directory=directory, callbacks=[average], verbose=0)
        average.apply()
        averaged.append(weights_of(trained))
    for first, second in zip(*averaged, strict=True):
        np.testing.assert_array_equal(first, second)


def test_more_epochs_go_on(model, tmp_path):
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    history = fit(model, ToyBatches(), epochs=3, directory=tmp_path, verbose=0)
    assert model.optimizer.iterations == 3 * STEPS
    assert len(history.history["loss"]) == 3


def test_more_epochs_go_on_in_float16(tmp_path):
    with precision("mixed_float16"):
        model = compile_for_training(toy_model(), learning_rate=0.02)
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    history = fit(model, ToyBatches(), epochs=3, directory=tmp_path, verbose=0)
    assert len(history.history["loss"]) == 3
    scaling, adam = model.optimizer, model.optimizer.inner_optimizer
    assert scaling.step_counter == adam.iterations == 3 * STEPS  # no step was skipped
    paths = [variable.path for variable in scaling.variables]
    assert len(set(paths)) == len(paths)


class StopAtEnd(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch == self.epoch


def test_a_training_that_a_callback_stopped_is_finished(model, tmp_path):
    for _ in range(2):
        fit(model, ToyBatches(), epochs=5, directory=tmp_path, callbacks=[StopAtEnd(1)], verbose=0)
        assert model.optimizer.iterations == 2 * STEPS
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 5)
    assert checkpoint.restore(model)
    assert checkpoint.finished and checkpoint.stopped


class StopAtBatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.model.stop_training = True


def test_a_training_stopped_inside_an_epoch_goes_on_from_its_last_save(model, tmp_path):
    fit(
        model,
        ToyBatches(),
        epochs=2,
        directory=tmp_path,
        save_steps=2,
        callbacks=[StopAtBatch()],
        verbose=0,
    )
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    assert checkpoint.restore(model)
    assert checkpoint.step == 2
    assert not checkpoint.finished


def make_nan(model):
    weight = model.trainable_variables[0]
    weight.assign(np.full(weight.shape, np.nan))


def test_nan_weights_are_not_saved(tmp_path):
    """A diverged training resumes from the last state without NaN."""
    model = compile_for_training(toy_model(), learning_rate=0.02)
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    saved = weights_of(model)
    kept = sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    checkpoint.restore(model)
    make_nan(model)
    path = model.trainable_variables[0].path
    message = f"Weights became NaN or infinite, .*{path}.*step 4.*last saved.*step 4.*learning rate"
    with pytest.warns(UserWarning, match=message) as warned:
        checkpoint.save()
        checkpoint.save()
    assert sum(each.category is UserWarning for each in warned) == 1
    assert kept == sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    assert TrainingCheckpoint(tmp_path, STEPS, 2).restore(model)
    for expected, received in zip(saved, weights_of(model), strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("saved", [True, False])
def test_nan_weights_are_reported_once(model, tmp_path, saved):
    make_nan(model)
    with pytest.warns(UserWarning) as warned:
        fit(model, ToyBatches(), epochs=3, directory=tmp_path if saved else None, verbose=0)
    (message,) = [str(each.message) for each in warned if each.category is UserWarning]
    assert "Weights became NaN or infinite" in message


class VectorBatches(ToyBatches):
    """Batches of vectors and their sums. One vector of the second epoch is large but finite."""

    def batch(self, step):
        x = np.random.default_rng(step).normal(size=(4, 3)).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        x[0] *= 1e25 if step == STEPS + 2 else 1
        return x, y

    def dataset(self, start_step=0):
        import tensorflow as tf

        specs = tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1))
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=specs
        )


class Mask(keras.layers.Layer):
    """A layer with a constant variable of 0 and -inf."""

    def build(self, shape):
        def values(shape, dtype=None):
            return keras.ops.convert_to_tensor([0.0, 0.0, -float("inf")], dtype)

        self.mask = self.add_weight(shape=(3,), initializer=values, trainable=False)

    def call(self, inputs):
        return keras.ops.where(self.mask < 0, 0.0, inputs)


def make_vector_model():
    layers = [Mask(), keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(SGD(0.01), "mse", jit_compile=False)
    return model


@pytest.mark.parametrize("saved", [True, False])
def test_infinite_moving_variance_is_reported_and_not_saved(tmp_path, saved):
    best = BestCheckpoint(tmp_path / "best.weights.h5", "loss", mode="max")
    average = AverageWeights(tmp_path / "average")
    directory = tmp_path / "state" if saved else None
    # With PyTorch, other weights of the layer become NaN in the same epoch.
    with pytest.warns(UserWarning, match="batch_normalization.* very large values"):
        callbacks = [best, average]
        fit(
            make_vector_model(),
            VectorBatches(),
            epochs=2,
            directory=directory,
            callbacks=callbacks,
            verbose=0,
        )
    assert best.best_epoch == 0 and average.kept_epochs == [0]  # although one weight contains -inf
    if saved:
        model = make_vector_model()
        checkpoint = TrainingCheckpoint(directory, STEPS, 2)
        assert checkpoint.restore(model) and checkpoint.step == STEPS
        assert np.isfinite(model.get_layer(index=1).moving_variance).all()


def test_infinite_variable_of_the_optimizer_is_not_saved(tmp_path):
    model = compile_for_training(toy_model(), learning_rate=0.02)
    model.optimizer.build(model.trainable_variables)
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    checkpoint.set_model(model)
    checkpoint.step = 1
    checkpoint.save()
    checkpoint.step = 2
    variable = model.optimizer.variables[-1]
    variable.assign(np.full(variable.shape, np.inf))
    message = f"Variables of the optimizer became .*{variable.path}"
    with pytest.warns(UserWarning, match=message):
        checkpoint.save()
    again = TrainingCheckpoint(tmp_path, STEPS, 2)
    assert again.restore(model) and again.step == 1


@pytest.mark.parametrize("what", ["state", "best"])
def test_where_nothing_can_be_written_is_known_before_the_training(model, tmp_path, what):
    (tmp_path / "file").write_text("")
    best = BestCheckpoint(tmp_path / "file" / "best.keras", "loss")
    before = weights_of(model)
    with pytest.raises(OSError, match="file"):
        if what == "state":
            fit(model, ToyBatches(), epochs=1, directory=tmp_path / "file", verbose=0)
        else:
            fit(model, ToyBatches(), epochs=1, callbacks=[best], verbose=0)
    for expected, received in zip(before, weights_of(model), strict=True):
        np.testing.assert_array_equal(received, expected)


def test_modes_of_saved_states_are_kept(model, tmp_path):
    state, previous = tmp_path / "training.npz", tmp_path / "training-previous.npz"
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    checkpoint.set_model(model)
    checkpoint.save()
    state.chmod(0o600)
    checkpoint.save()
    checkpoint.save()
    assert [path.stat().st_mode & 0o777 for path in (state, previous)] == [0o600] * 2


def test_name_of_the_best_model_can_be_long(tmp_path):
    path = tmp_path / ("b" * 239 + ".weights.h5")
    best = BestCheckpoint(path, "loss")
    best.set_model(toy_model())
    best.on_train_begin()
    best.on_epoch_end(0, {"loss": 1.0})
    best.on_train_end()
    assert path.stat().st_size > 0


def test_a_directory_is_no_place_for_the_best_model(model, tmp_path):
    (tmp_path / "best.keras").mkdir()
    callbacks = [BestCheckpoint(tmp_path / "best.keras", "loss")]
    with pytest.raises(FileExistsError, match="path to be a file.*best.keras"):
        fit(model, ToyBatches(), epochs=1, callbacks=callbacks, verbose=0)


class NoMoreThan(ToyBatches):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def stream(self, start_step=0):
        return map(self.batch, range(self.steps))


@pytest.mark.filterwarnings("ignore:.*Your input ran out of data")
@pytest.mark.parametrize("steps", [2, STEPS - 1])
def test_batches_that_end_early(model, tmp_path, steps):
    with pytest.raises(ValueError, match=f"Expected 4 batches .* Received: {steps} batches"):
        fit(model, NoMoreThan(steps), epochs=2, directory=tmp_path, verbose=0)


def test_a_damaged_state_gives_way_to_the_one_before(model, tmp_path):
    fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    expected = weights_of(model)
    newest = tmp_path / "training.npz"
    newest.write_bytes(newest.read_bytes()[:-1000])
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    with pytest.warns(UserWarning, match="training.npz', a damaged file .* Trying an older"):
        checkpoint.restore(model)
    assert checkpoint.step == STEPS
    with pytest.warns(UserWarning, match="damaged"):
        fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    for old, new in zip(expected, weights_of(model), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_damaged_state_does_not_take_the_place_of_the_one_before(model, tmp_path):
    fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    (tmp_path / "training.npz").write_bytes(b"damaged")
    good = (tmp_path / "training-previous.npz").read_bytes()
    with pytest.warns(UserWarning, match="damaged"):
        fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    assert (tmp_path / "training-previous.npz").read_bytes() == good
    fit(model, ToyBatches(), epochs=3, directory=tmp_path, verbose=0)
    assert (tmp_path / "training-previous.npz").read_bytes() != good


def test_a_state_with_one_wrong_byte_is_damaged(model, tmp_path):
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    path = tmp_path / "training.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(ValueError, match="start again"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)


def test_a_full_disk_keeps_the_last_state(model, tmp_path, monkeypatch):
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)

    def full_disk(stream, **arrays):
        stream.write(b"half")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(np, "savez", full_disk)
        fit(model, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    assert checkpoint.restore(model)
    assert checkpoint.step == STEPS


class OtherData(ToyBatches):
    """Different batches, except for the first."""

    def batch(self, step):
        return super().batch(step if step == 0 else step + 100)


def embeddings_exchanged():
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "target_ids")
    }
    embedded = [keras.layers.Embedding(12, 8)(ids) for ids in reversed(inputs.values())]
    hidden = keras.layers.Dense(8, "tanh", name="hidden")(keras.layers.Concatenate()(embedded))
    return keras.Model(inputs, keras.layers.Dense(12, dtype="float32")(hidden))


def with_optimizer(optimizer, loss=None):
    model = toy_model()
    loss = SequenceCrossentropy(0.1) if loss is None else loss
    model.compile(optimizer, loss=loss, jit_compile=False)
    return model


CHANGES = {
    "activation": (
        lambda: compiled(toy_model(activation="relu")),
        {},
        "model.layers.hidden.activation",
    ),
    "name": (lambda: compiled(toy_model(name="other")), {}, "saved 'hidden', now 'other'"),
    "units": (
        lambda: compiled(toy_model(units=9)),
        {},
        "model.layers.hidden.units: saved 8, now 9",
    ),
    "embeddings exchanged": (lambda: compiled(embeddings_exchanged()), {}, "model.layers"),
    "optimizer": (
        lambda: with_optimizer(keras.optimizers.Ftrl(0.02)),
        {},
        "optimizer.class_name: saved 'SGD', now 'Ftrl'",
    ),
    "optimizer's settings": (
        lambda: with_optimizer(SGD(0.02, clipnorm=1.0)),
        {},
        "optimizer.clipnorm: saved None, now 1.0",
    ),
    "schedule": (
        lambda: with_optimizer(SGD(keras.optimizers.schedules.CosineDecay(0.02, 9))),
        {},
        "optimizer.learning_rate",
    ),
    "loss": (
        lambda: with_optimizer(SGD(0.02), SequenceCrossentropy(0.2)),
        {},
        "loss.label_smoothing: saved 0.1, now 0.2",
    ),
    "loss's class": (
        lambda: with_optimizer(SGD(0.02), "sparse_categorical_crossentropy"),
        {},
        "loss: saved .*, now 'sparse_categorical_crossentropy'",
    ),
    "first batch": (lambda: with_optimizer(SGD(0.02)), {"seed": 9}, "data.batches.0: saved"),
    "later batch": (
        lambda: with_optimizer(SGD(0.02)),
        {"data": OtherData},
        "data.batches.2: saved",
    ),
    "steps": (
        lambda: with_optimizer(SGD(0.02)),
        {"sizes": (3, 4)},
        "data.steps_per_epoch: saved 4, now 2",
    ),
}


def compiled(model):
    model.compile(SGD(0.02), loss=SequenceCrossentropy(0.1), jit_compile=False)
    return model


@pytest.fixture(scope="module")
def saved_state(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    fit(compiled(toy_model()), ToyBatches(), epochs=1, directory=directory, verbose=0)
    return directory


@slow_on_jax
@pytest.mark.parametrize("change", CHANGES)
def test_resume_names_what_changed(saved_state, tmp_path, change):
    make, batches, message = CHANGES[change]
    directory = shutil.copytree(saved_state, tmp_path / "state")
    batches = dict(batches)
    batches = batches.pop("data", ToyBatches)(**batches)
    model = make()
    with pytest.raises(ValueError, match=f"Received: .*{message}"):
        fit(model, batches, epochs=2, directory=directory, verbose=0)
    if change in ("units", "optimizer", "schedule"):  # different variables or different shapes
        with (
            pytest.warns(UserWarning, match=message),
            pytest.raises(ValueError, match="shape|variables"),
        ):
            fit(model, batches, epochs=2, directory=directory, verbose=0, on_mismatch="warn")
        return
    with pytest.warns(UserWarning, match=message):
        history = fit(model, batches, epochs=2, directory=directory, verbose=0, on_mismatch="warn")
    assert len(history.history["loss"]) == 2
    # The saved state belongs to the changed training.
    fit(model, batches, epochs=2, directory=directory, verbose=0)


class Counter(keras.callbacks.Callback):
    def get_state(self):
        return 1

    def set_state(self, state):
        pass


def test_resume_accepts_changes_that_do_not_matter(saved_state, tmp_path):
    directory = shutil.copytree(saved_state, tmp_path / "elsewhere")
    model = toy_model()
    loss = SequenceCrossentropy(0.1, name="other")
    model.compile(SGD(0.5, name="other"), loss=loss, metrics=["accuracy"], jit_compile=False)
    best = BestCheckpoint(tmp_path / "best.weights.h5", "loss")
    history = fit(
        model,
        ToyBatches(),
        epochs=3,
        directory=directory,
        save_steps=1,
        callbacks=[Counter(), best],
        verbose=0,
    )
    assert len(history.history["loss"]) == 3 and best.best is not None
    best = BestCheckpoint(tmp_path / "best.weights.h5", "loss")
    fit(model, ToyBatches(), epochs=3, directory=directory, callbacks=[best], verbose=0)
    assert best.best is not None  # found by name, although the other callback is missing


def test_state_without_fingerprint_gives_a_warning(saved_state, tmp_path):
    arrays, facts = read_checkpoint(saved_state / "training.npz")
    del facts["fingerprint"]
    write_checkpoint(tmp_path / "training.npz", arrays, facts)
    with pytest.warns(UserWarning, match="of an earlier version"):
        fit(compiled(toy_model()), ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    fit(compiled(toy_model()), ToyBatches(), epochs=2, directory=tmp_path, verbose=0)


def test_state_of_another_model_is_refused(model, tmp_path):
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    before = (tmp_path / "training.npz").read_bytes()
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="model.class_name: saved 'Functional', now 'Sequential'"):
        fit(compile_for_training(other), ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    assert (tmp_path / "training.npz").read_bytes() == before


class SecondTraining(keras.callbacks.Callback):
    """Starts a second training during the first."""

    def __init__(self, train):
        super().__init__()
        self.train = train
        self.error = None

    def on_epoch_end(self, epoch, logs=None):
        with pytest.raises(RuntimeError) as error:
            self.train()
        self.error = str(error.value)


@pytest.mark.parametrize("what", ["state", "average", "best"])
def test_two_trainings_cannot_write_the_same_path(model, tmp_path, what):
    def train(name, extra=()):
        callbacks = [
            AverageWeights(tmp_path / ("average" if what == "average" else f"average-{name}")),
            BestCheckpoint(tmp_path / f"{'best' if what == 'best' else name}.weights.h5", "loss"),
        ]
        trained = compiled(toy_model())
        directory = tmp_path / ("state" if what == "state" else f"state-{name}")
        fit(
            trained,
            ToyBatches(),
            epochs=1,
            directory=directory,
            callbacks=[*callbacks, *extra],
            verbose=0,
        )

    second = SecondTraining(lambda: train("second"))
    train("first", [second])
    assert f"{what}" in second.error
    assert f"process {os.getpid()} on host {socket.gethostname()!r}" in second.error
    train("second")  # the first training has ended


def test_failed_training_releases_its_directory(model, tmp_path):
    class Fail(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyError("failed")

    for _ in range(2):
        with pytest.raises(KeyError, match="failed"):
            average = AverageWeights(tmp_path / "average")
            fit(
                model,
                ToyBatches(),
                epochs=1,
                directory=tmp_path,
                callbacks=[average, Fail()],
                verbose=0,
            )


def test_checkpoint_locks_its_directory_in_the_fit_of_keras(model, tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 1)
    second = SecondTraining(
        lambda: fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    )
    stream = (batch for batch in ToyBatches().stream())
    callbacks = [second, checkpoint]
    model.fit(stream, steps_per_epoch=STEPS, shuffle=False, callbacks=callbacks, verbose=0)
    assert "Expected a path that no other training uses" in second.error
    assert not checkpoint.lock.is_held


def test_arguments_of_another_kind_are_refused_with_a_remedy(model, tmp_path):
    generator = (ToyBatches().batch(0) for _ in range(9))
    for name in ("x", "validation_data"):
        message = f"Expected {name} to be arrays, .*PyDataset, .*LengthBucketed.*type generator"
        with pytest.raises(ValueError, match=message):
            fit(model, **{"x": ToyBatches(), name: generator}, directory=tmp_path / "state")
    batches = ToyBatches()
    batches.steps_per_epoch = 0
    with pytest.raises(ValueError, match="Received: x.steps_per_epoch=0"):
        fit(model, batches)
    for epochs in ("3", 1.5, None):
        with pytest.raises(ValueError, match=f"positive integer. Received: epochs={epochs!r}"):
            fit(model, ToyBatches(), epochs=epochs)
    with pytest.raises(ValueError, match="Received: save_steps='1'"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, save_steps="1")
    for callbacks in (BestCheckpoint, BestCheckpoint("best.keras"), [BestCheckpoint]):
        with pytest.raises(ValueError, match="to be a list of keras.callbacks.Callback"):
            fit(model, ToyBatches(), epochs=1, callbacks=callbacks)
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(NotADirectoryError, match="Expected the path of a directory.*Choose"):
            fit(model, ToyBatches(), epochs=1, directory=directory)


def test_bad_arguments(model, tmp_path):
    with pytest.raises(ValueError, match="Received: epochs=0"):
        fit(model, ToyBatches(), epochs=0)
    with pytest.raises(ValueError, match="Received: save_steps=0"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, save_steps=0)
    with pytest.raises(ValueError, match="Received: on_mismatch='ignore'"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, on_mismatch="ignore")
    with pytest.raises(ValueError, match="Expected a compiled model"):
        fit(toy_model(), ToyBatches(), epochs=1, directory=tmp_path)
    model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=3)
    with pytest.raises(ValueError, match="steps_per_execution=3, steps_per_epoch=4"):
        fit(model, ToyBatches(), epochs=1)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras needs steps_per_execution=1 on PyTorch"
)
def test_several_steps_of_one_execution(tmp_path):
    model = toy_model()
    model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=2)
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    assert int(model.optimizer.iterations) == STEPS
    restored = toy_model()
    restored.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=2)
    fit(restored, ToyBatches(), epochs=2, directory=tmp_path, verbose=0)
    assert int(restored.optimizer.iterations) == 2 * STEPS


def test_what_a_killed_save_left_is_removed(model, tmp_path):
    left = tmp_path / ".partial-abcdefgh-training.npz"
    left.mkdir()
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    assert not left.exists() and (tmp_path / "training.npz").exists()


def test_what_a_living_save_writes_is_kept(model, tmp_path):
    with atomic_replace(tmp_path / "training.npz") as partial:
        partial.write_bytes(b"half of it")
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
        assert partial.read_bytes() == b"half of it"


@requires_tensorflow("strategies of TensorFlow")
@pytest.mark.parametrize("where", ["compile", "fit"])
def test_gradient_accumulation_under_a_strategy_is_refused_before_training(where):
    with make_strategy("mirrored", devices=["CPU:0"]).scope():
        model = toy_model()
        with pytest.raises(ValueError, match="gradient_accumulation_steps=2, strategy=Mirrored"):
            if where == "compile":
                compile_for_training(model, gradient_accumulation_steps=2)
            else:
                model.compile(SGD(gradient_accumulation_steps=2), "mse")
                fit(model, ToyBatches(), epochs=1, verbose=0)


def test_gradient_accumulation_on_one_device(model):
    compile_for_training(model, gradient_accumulation_steps=2)
    fit(model, ToyBatches(), epochs=1, verbose=0)
    assert int(model.optimizer.iterations) == STEPS // 2
