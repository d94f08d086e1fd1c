import keras
import numpy as np
import pytest

from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    TrainingCheckpoint,
    compile_for_training,
    fit,
)
from tests.backend import precision
from tests.training.toy_training import ToyBatches, toy_model, toy_translator

STEPS = 4


@pytest.fixture
def model():
    return compile_for_training(toy_model(), learning_rate=0.02)


def weights_of(model):
    return [weight.copy() for weight in model.get_weights()]


def test_trains_and_validates():
    model = compile_for_training(toy_translator(), learning_rate=0.02)
    history = fit(model, ToyBatches(), epochs=8, validation_batches=ToyBatches(seed=1), verbose=0)
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
    """The process may have been killed after the last epoch, before the weights were averaged."""
    averaged = []
    for trained in (model, compile_for_training(toy_model(), learning_rate=0.01)):
        average = AverageWeights(tmp_path / "average", num_epochs=2)
        directory = tmp_path / "state"
        fit(trained, ToyBatches(), 2, directory, callbacks=[average], verbose=0)
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
    assert scaling.step_counter == adam.iterations == 3 * STEPS  # none was left out
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
        fit(model, ToyBatches(), 5, directory=tmp_path, callbacks=[StopAtEnd(1)], verbose=0)
        assert model.optimizer.iterations == 2 * STEPS
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 5)
    assert checkpoint.restore(model)
    assert checkpoint.finished and checkpoint.stopped


class StopAtBatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.model.stop_training = True


def test_a_training_stopped_inside_an_epoch_goes_on_from_its_last_save(model, tmp_path):
    fit(model, ToyBatches(), 2, tmp_path, save_steps=2, callbacks=[StopAtBatch()], verbose=0)
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    assert checkpoint.restore(model)
    assert checkpoint.step == 2
    assert not checkpoint.finished


@pytest.mark.filterwarnings("ignore:Expected finite weights. Received. others at step 4")
def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    """A training that diverged goes on from the last state that was any good."""
    model = compile_for_training(toy_model(), learning_rate=0.02)
    fit(model, ToyBatches(), 1, tmp_path, verbose=0)
    saved = weights_of(model)
    kept = sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    checkpoint = TrainingCheckpoint(tmp_path, STEPS, 2)
    checkpoint.restore(model)
    weight = model.trainable_variables[0]
    weight.assign(np.full(weight.shape, np.nan))
    checkpoint.save()
    assert kept == sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    assert TrainingCheckpoint(tmp_path, STEPS, 2).restore(model)
    for expected, received in zip(saved, weights_of(model), strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("what", ["state", "best"])
def test_where_nothing_can_be_written_is_known_before_the_training(model, tmp_path, what):
    (tmp_path / "file").write_text("")
    best = BestCheckpoint(tmp_path / "file" / "best.keras", "loss")
    before = weights_of(model)
    with pytest.raises(OSError, match="file"):
        if what == "state":
            fit(model, ToyBatches(), 1, tmp_path / "file", verbose=0)
        else:
            fit(model, ToyBatches(), 1, callbacks=[best], verbose=0)
    for expected, received in zip(before, weights_of(model), strict=True):
        np.testing.assert_array_equal(received, expected)


def test_a_directory_is_no_place_for_the_best_model(model, tmp_path):
    (tmp_path / "best.keras").mkdir()
    callbacks = [BestCheckpoint(tmp_path / "best.keras", "loss")]
    with pytest.raises(FileExistsError, match="the name of a file.*best.keras"):
        fit(model, ToyBatches(), 1, callbacks=callbacks, verbose=0)


class NoMoreThan(ToyBatches):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def stream(self, start_step=0):
        return map(self.batch, range(self.steps))


@pytest.mark.filterwarnings("ignore:.*Your input ran out of data")
@pytest.mark.parametrize("steps", [2, STEPS - 1])
def test_batches_that_end_early(model, tmp_path, steps):
    with pytest.raises(ValueError, match="4 of them per epoch. Received: fewer"):
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
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(ValueError, match="start anew"):
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


def test_a_state_of_another_training_is_refused(model, tmp_path):
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    with pytest.raises(ValueError, match="steps per epoch 2. Received: .* with 4"):
        fit(model, ToyBatches((3, 4)), epochs=1, directory=tmp_path, verbose=0)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="variables"):
        fit(compile_for_training(other), ToyBatches(), 1, directory=tmp_path, verbose=0)
    wider = compile_for_training(toy_model(units=9))
    with pytest.raises(ValueError, match=r"kernel of shape \(16, 9\). Received: .*\(16, 8\)"):
        fit(wider, ToyBatches(), 1, directory=tmp_path, verbose=0)


def test_bad_arguments(model, tmp_path):
    with pytest.raises(ValueError, match="Received: epochs=0"):
        fit(model, ToyBatches(), epochs=0)
    with pytest.raises(ValueError, match="Received: save_steps=0"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, save_steps=0)
    with pytest.raises(ValueError, match="Expected a compiled model"):
        fit(toy_model(), ToyBatches(), epochs=1, directory=tmp_path)
    best = keras.callbacks.EarlyStopping(restore_best_weights=True)
    with pytest.raises(ValueError, match="EarlyStopping with restore_best_weights=True"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path, callbacks=[best])
    model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=3)
    with pytest.raises(ValueError, match="steps_per_execution=3, steps_per_epoch=4"):
        fit(model, ToyBatches(), epochs=1)
    compile_for_training(model, use_ema=True)
    with pytest.raises(ValueError, match="Received: use_ema=True"):
        fit(model, ToyBatches(), epochs=1, directory=tmp_path)


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
    left = tmp_path / ".partial-1-training.npz"
    left.touch()
    fit(model, ToyBatches(), epochs=1, directory=tmp_path, verbose=0)
    assert not left.exists() and (tmp_path / "training.npz").exists()
