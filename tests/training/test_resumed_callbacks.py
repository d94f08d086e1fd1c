"""Interrupted and resumed trainings equal one uninterrupted call of `model.fit`."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_attn._backend.private_names import CALLBACK_ATTRIBUTES
from keras_attn._files.checkpoint_file import read_checkpoint, write_checkpoint
from keras_attn.training import fit
from keras_attn.training._callback_states import REJECTED
from keras_attn.training._restored_state import saved_variables
from tests.backend import requires_tensorflow
from tests.slow_cases import all_slow_but, slow_on_jax

BACKEND = keras.backend.backend()
EPOCHS, STEPS = 4, 3


class Batches:
    steps_per_epoch = STEPS

    def __init__(self, seed=0):
        self.seed = seed

    def batch(self, step):
        generator = np.random.default_rng((self.seed, step))
        x = generator.normal(size=(5, 4)).astype("float32")
        return x, (x.sum(1, keepdims=True) > 0).astype("float32"), np.abs(x[:, 0])

    def stream(self, start_step=0):
        step = start_step
        while True:
            yield self.batch(step)
            step += 1

    def dataset(self, start_step=0):
        import tensorflow as tf

        specs = [tf.TensorSpec((None, *shape)) for shape in ((4,), (1,), ())]
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=tuple(specs)
        )


class Validation(keras.utils.PyDataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return Batches(1).batch(index)


def make_model(**optimizer):
    inputs = keras.Input((4,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(6, "tanh")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(hidden))
    model.compile(
        keras.optimizers.Adam(0.3, **optimizer),
        "binary_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=[keras.metrics.AUC(num_thresholds=5, name="auc")],
        jit_compile=BACKEND == "jax",
    )
    model.optimizer.build(model.trainable_variables)
    return model


class Interrupt(keras.callbacks.Callback):
    """Raises an error after a number of steps, or at the end of an epoch, before the save."""

    def __init__(self, step=None, epoch=None):
        super().__init__()
        self.at = step, epoch

    def on_train_begin(self, logs=None):
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == self.at[0]:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.at[1]:
            raise KeyboardInterrupt

    def get_state(self):
        return None

    def set_state(self, state):
        pass


class Recorder(keras.callbacks.Callback):
    """A callback of a user, with an annealed rate and random numbers of Keras."""

    def __init__(self):
        super().__init__()
        self.rate, self.events, self.best = 1.0, [], None

    def on_train_begin(self, logs=None):
        self.events = ["begin"]

    def on_train_end(self, logs=None):
        self.events.append("end")

    def on_epoch_begin(self, epoch, logs=None):
        self.rate *= 0.5
        self.model.optimizer.learning_rate = 0.1 * self.rate + 0.01 * epoch
        if BACKEND != "jax":
            self.noise = float(keras.random.uniform(()))
        self.events.append(f"epoch {epoch} {int(self.model.optimizer.iterations)}")

    def on_train_batch_begin(self, batch, logs=None):
        self.events.append(f"{batch} begins")

    def on_train_batch_end(self, batch, logs=None):
        self.events.append(f"{batch}: {logs['loss']:.6f}")

    def on_epoch_end(self, epoch, logs=None):
        self.best = np.array([epoch, logs["loss"]])
        logs["noise"] = self.rate + getattr(self, "noise", 0.0)

    def get_state(self):
        return {"rate": self.rate, "events": self.events, "best": self.best}

    def set_state(self, state):
        self.rate, self.events, self.best = state["rate"], state["events"], state["best"]


def all_callbacks(directory):
    """Returns callbacks with a state, which do not stop the training."""
    directory.mkdir(exist_ok=True)
    callbacks = keras.callbacks
    plateau = callbacks.ReduceLROnPlateau("auc", 0.7, 1, mode="min", cooldown=1, min_lr=0.001)
    return [
        plateau,
        Recorder(),
        callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        callbacks.EarlyStopping("val_auc", patience=9, mode="min", restore_best_weights=True),
        callbacks.EarlyStopping("loss", patience=9),
        callbacks.ModelCheckpoint(
            directory / "{epoch}-{batch}.weights.h5", save_weights_only=True, save_freq=2
        ),
        callbacks.ModelCheckpoint(
            directory / "best-{epoch}.weights.h5", "val_loss", 0, True, True, "max"
        ),
        callbacks.CSVLogger(directory / "log.csv"),
        callbacks.CSVLogger(directory / "appended.csv", append=True),
    ]


class Trainer:
    """Trains one compiled model repeatedly from the same initial state."""

    def __init__(self, model):
        self.model = model
        self.initial = [keras.ops.convert_to_numpy(each) for each in saved_variables(model)]
        # On PyTorch, the first training uses more random numbers, for shapes.
        self.plain([], epochs=1)

    def reset(self, seed=0):
        keras.utils.set_random_seed(seed)
        for variable, array in zip(saved_variables(self.model), self.initial, strict=True):
            variable.assign(array + np.asarray(seed, array.dtype))

    def plain(self, callbacks, epochs=EPOCHS):
        """Trains with the method of Keras."""
        self.reset()
        history = self.model.fit(
            (batch for batch in Batches().stream()),
            steps_per_epoch=STEPS,
            epochs=epochs,
            validation_data=Validation(),
            shuffle=False,
            callbacks=callbacks,
            verbose=0,
        )
        return self.results(callbacks, history)

    def resumable(self, callbacks, directory, epochs=EPOCHS, seed=0, **arguments):
        self.reset(seed)
        history = fit(
            self.model,
            Batches(),
            epochs=epochs,
            directory=directory,
            validation_data=Batches(1),
            callbacks=callbacks,
            **{"verbose": 0, "save_steps": 1, **arguments},
        )
        return self.results(callbacks, history)

    def results(self, callbacks, history):
        """Returns everything that must be equal."""
        values = {"history": history.history, "epoch": history.epoch, "params": history.params}
        values["arrays"] = [keras.ops.convert_to_numpy(v) for v in saved_variables(self.model)]
        for index, callback in enumerate(callbacks):
            if not isinstance(callback, Interrupt):
                names = set(vars(callback)) & {
                    *("wait", "best", "best_epoch", "stopped_epoch", "cooldown_counter"),
                    *("_batches_seen_since_last_saving", "events", "best_weights"),
                    *("_global_train_batch", "_ema_weights_in_model"),
                }
                values[str(index)] = {name: getattr(callback, name) for name in names}
        return values


def assert_equal(received, expected):
    received, expected = (
        [(path, np.asarray(value)) for path, value in keras.tree.flatten_with_path(each)]
        for each in (received, expected)
    )
    assert [path for path, _ in received] == [path for path, _ in expected]
    for (path, value), (_, truth) in zip(received, expected, strict=True):
        np.testing.assert_array_equal(value, truth, str(path))


def files(directory):
    return {
        path.name: path.read_text() if path.suffix == ".csv" else None
        for path in sorted(directory.iterdir())
    }


@pytest.fixture(scope="module")
def trainer():
    return Trainer(make_model())


@pytest.fixture(scope="module")
def truth(trainer, tmp_path_factory):
    """Returns the results of plain `model.fit`, and its files."""
    directory = tmp_path_factory.mktemp("plain")
    return trainer.plain(all_callbacks(directory)), files(directory)


def close_files(callbacks):
    """Closes what the end of a process would close."""
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.CSVLogger):
            callback.csv_file.close()


def resume_after(interrupt, trainer, truth, directory, **arguments):
    """Interrupts a training, resumes it from other weights, and compares all results."""
    callbacks = [*all_callbacks(directory / "files"), interrupt]
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable(callbacks, directory / "state", **arguments)
    close_files(callbacks)
    seed = int((directory / "state" / "training.npz").exists())  # otherwise it begins again
    callbacks = all_callbacks(directory / "files")
    resumed = trainer.resumable(callbacks, directory / "state", seed=seed)
    assert_equal(resumed, truth[0])
    assert files(directory / "files") == truth[1]


STEPS_AND_SAVES = [(step, saves) for step in range(1, EPOCHS * STEPS + 1) for saves in (1, 2)]


@pytest.mark.parametrize(("step", "save_steps"), all_slow_but((5, 1), cases=STEPS_AND_SAVES))
def test_interrupted_after_a_step(trainer, truth, tmp_path, step, save_steps):
    resume_after(Interrupt(step), trainer, truth, tmp_path, save_steps=save_steps)


@pytest.mark.parametrize("epoch", all_slow_but(1, cases=range(EPOCHS)))
def test_interrupted_at_the_end_of_an_epoch(trainer, truth, tmp_path, epoch):
    resume_after(Interrupt(epoch=epoch), trainer, truth, tmp_path)


def early_stopping():
    return [
        keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True, mode="max")
    ]


def test_best_weights_are_restored_once_and_again(trainer, tmp_path):
    """The training stops early. A further call restores the best weights without training."""
    truth = trainer.plain(early_stopping())
    assert truth["0"]["stopped_epoch"] in range(1, EPOCHS - 1)
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([*early_stopping(), Interrupt(step=5)], tmp_path)
    for _ in range(2):
        assert_equal(trainer.resumable(early_stopping(), tmp_path, seed=1), truth)


def test_more_epochs_with_changed_callbacks(trainer, tmp_path):
    def callbacks():
        callbacks = keras.callbacks
        plateaus = [callbacks.ReduceLROnPlateau(name, mode="max") for name in ("auc", "loss")]
        return [*plateaus, callbacks.EarlyStopping("loss", mode="max", patience=9)]

    truth = trainer.plain(callbacks())
    first, second, stopping = callbacks()
    trainer.resumable([first, second, stopping], tmp_path, epochs=2)
    first, second, stopping = callbacks()
    added = keras.callbacks.EarlyStopping("auc", mode="max", patience=9)
    resumed = trainer.resumable([stopping, second, added, first], tmp_path, seed=1)
    for name, index in {"0": "3", "1": "1", "2": "0"}.items():
        assert truth[name] == resumed[index]
    assert added.wait <= 1  # it begins with the third epoch


@slow_on_jax
def test_moving_averages_replace_the_weights_once(tmp_path):
    trainer = Trainer(make_model(use_ema=True, ema_momentum=0.5))
    truth = trainer.plain([])
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([Interrupt(step=5)], tmp_path)
    for _ in range(2):
        assert_equal(trainer.resumable([], tmp_path, seed=1), truth)


@pytest.mark.slow
def test_swapped_moving_averages(tmp_path):
    trainer = Trainer(make_model(use_ema=True, ema_momentum=0.5))
    swap = keras.callbacks.SwapEMAWeights
    truth = trainer.plain([swap(swap_on_epoch=True)])
    for index, step in enumerate((5, 7)):
        directory = tmp_path / f"swap-{index}"
        with pytest.raises(KeyboardInterrupt):
            trainer.resumable([swap(swap_on_epoch=True), Interrupt(step)], directory)
        assert_equal(trainer.resumable([swap(swap_on_epoch=True)], directory, seed=1), truth)
    with pytest.raises(ValueError, match="SwapEMAWeights.*epochs=5"):
        trainer.resumable([swap(swap_on_epoch=True)], directory, epochs=EPOCHS + 1)


@slow_on_jax
def test_metrics_continue_in_a_new_model(trainer, tmp_path):
    """On TensorFlow, the metrics of a new model have no variables before the first step."""
    truth = trainer.plain([])
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([Interrupt(step=3)], tmp_path)
    new = make_model()
    history = fit(
        new, Batches(), epochs=1, directory=tmp_path, validation_data=Batches(1), verbose=0
    )
    assert history.history == {name: values[:1] for name, values in truth["history"].items()}


@slow_on_jax
def test_changed_metrics_give_a_warning(trainer, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([Interrupt(step=3)], tmp_path)
    model = make_model()
    model.compile(model.optimizer, model.loss, metrics=["mae"], jit_compile=BACKEND == "jax")
    with pytest.warns(UserWarning, match="cover only its later steps"):
        fit(model, Batches(), epochs=1, directory=tmp_path, verbose=0)


class Counter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps, self.losses, self.name = 0, [], "constant"

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.losses.append(logs["loss"])


def test_unsaved_attributes_give_a_warning(trainer, tmp_path):
    trainer.resumable([Counter()], tmp_path, epochs=1)
    message = "changed attributes Counter.losses, Counter.steps, which begin again"
    with pytest.warns(UserWarning, match=message):
        trainer.resumable([Counter()], tmp_path, epochs=1)
    trainer.resumable([], tmp_path, epochs=1)


def test_state_of_an_earlier_version(trainer, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([Interrupt(step=5)], tmp_path)
    arrays, facts = read_checkpoint(tmp_path / "training.npz")
    known = ("step", "steps_per_epoch", "stopped", "history", "fingerprint")
    facts = {name: facts[name] for name in known} | {"callback_names": [], "callbacks": []}
    write_checkpoint(tmp_path / "training.npz", arrays, facts)
    with pytest.warns(UserWarning) as warned:
        trainer.resumable([], tmp_path, seed=1)
    messages = " ".join(str(each.message) for each in warned)
    assert "of an earlier version" in messages and "only its later steps" in messages


def test_csv_logger_of_another_training_and_without_its_file(trainer, tmp_path):
    path = tmp_path / "log.csv"
    trainer.resumable([keras.callbacks.CSVLogger(path)], tmp_path, epochs=2)
    logger = keras.callbacks.CSVLogger(path)
    trainer.resumable([logger], tmp_path, epochs=3)
    trainer.resumable([logger], tmp_path / "other", epochs=1)
    assert [row.split(",")[0] for row in path.read_text().split()] == ["epoch", "0"]
    path.unlink()
    with pytest.warns(UserWarning, match="log.csv' with 0 bytes. The rows of the earlier epochs"):
        trainer.resumable([keras.callbacks.CSVLogger(path)], tmp_path, epochs=4)
    assert [row.split(",")[0] for row in path.read_text().split()] == ["epoch", "3"]


def test_progress_begins_at_the_interruption(trainer, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([Interrupt(step=5)], tmp_path)
    trainer.resumable([], tmp_path, epochs=2, verbose=1)
    output = capsys.readouterr().out
    assert "Epoch 2/2" in output and "3/3" in output and "1/3" not in output


def test_each_callback_of_keras_is_exact_or_rejected(trainer, tmp_path):
    """If this fails, decide for the new callback of Keras."""
    stateless = {
        *("Callback", "CallbackList", "History", "ProgbarLogger", "LambdaCallback"),
        *("LearningRateScheduler", "RemoteMonitor", "TerminateOnNaN"),
    }
    names = {name for name in dir(keras.callbacks) if name[0].isupper()}
    assert names == stateless | set(CALLBACK_ATTRIBUTES) | set(REJECTED)
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(ValueError, match="Received: BackupAndRestore in callbacks. Remove it"):
        trainer.resumable([backup], tmp_path)


@requires_tensorflow("the summaries of TensorBoard")
def test_tensorboard_continues_its_batches(trainer, tmp_path):
    import tensorflow as tf

    written = {}

    def scalar(name, value, step):
        written[name, int(step)] = float(value)

    def board():
        board = keras.callbacks.TensorBoard(tmp_path / "logs", write_graph=False)
        # The package tensorboard, which writes scalars, is not needed.
        names = ("create_file_writer", "record_if")
        functions = {name: getattr(tf.summary, name) for name in names}
        board._summary_module = SimpleNamespace(scalar=scalar, **functions)
        return [board]

    truth, expected = trainer.plain(board()), dict(written)
    written.clear()
    with pytest.raises(KeyboardInterrupt):
        trainer.resumable([*board(), Interrupt(step=5)], tmp_path / "state")
    assert_equal(trainer.resumable(board(), tmp_path / "state", seed=1), truth)
    assert written == expected


@slow_on_jax
@pytest.mark.skipif(BACKEND == "torch", reason="Keras needs steps_per_execution=1 on PyTorch")
def test_steps_per_execution_must_divide_the_finished_steps(tmp_path):
    class FourSteps(Batches):
        steps_per_epoch = 4

    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        options = {"directory": tmp_path, "save_steps": 1, "callbacks": [Interrupt(step=2)]}
        fit(model, FourSteps(), epochs=1, verbose=0, **options)
    model.compile(model.optimizer, "binary_crossentropy", steps_per_execution=2)
    with pytest.raises(ValueError, match="steps_per_execution=2, and a saved state after 1 steps"):
        fit(model, FourSteps(), epochs=1, directory=tmp_path, verbose=0, on_mismatch="warn")
