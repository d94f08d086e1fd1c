"""Progress lines on terminals and in files, the history file, and warnings of problems."""

import io
import json
import math
import warnings

import keras
import numpy as np
import pytest

from keras_attn._backend import compilation_time
from keras_attn._backend.compilation_time import compilation_seconds
from keras_attn.training import HistoryFile, ShowProgress, WarnOfProblems, _show_progress, fit


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    seconds = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    return seconds


def run_epoch(callback, clock, epoch, logs, steps=10, seconds=1.0):
    callback.on_epoch_begin(epoch)
    for step in range(steps):
        clock[0] += seconds
        callback.on_train_batch_end(step, {"loss": 2.5 - step / 100})
    callback.on_epoch_end(epoch, logs)


def progress(stream, **options):
    callback = ShowProgress(stream=stream, **options)
    callback.set_params({"epochs": 3, "steps": 10})
    callback.on_train_begin()
    return callback


def test_a_terminal_has_one_line_that_is_replaced(clock):
    stream = Terminal()
    callback = progress(stream, items_per_step=500, item="words")
    run_epoch(callback, clock, 0, {"loss": 2.45, "val_loss": 3.0})
    *counts, last = stream.getvalue().split("\r\x1b[K")
    assert len(counts) == 9  # the line is erased in the last step, for what other callbacks print
    assert counts[3] == "epoch 1 of 3   4 of 10 steps   loss 2.47   500 words/s   0:26 left"
    assert last == "epoch 1 of 3: loss 2.45, val_loss 3, 0:10 in all\n"
    assert callback.position == "in epoch 1, step 10"


def test_a_file_has_a_line_in_thirty_seconds(clock):
    stream = io.StringIO()
    run_epoch(progress(stream), clock, 1, {"loss": 2.0}, seconds=400.0)
    first, *_, last = stream.getvalue().splitlines()
    assert first == "epoch 2 of 3   1 of 10 steps   loss 2.5   0.0025 steps/s   2:06:40 left"
    stream = io.StringIO()
    run_epoch(progress(stream), clock, 2, {"loss": 2.0}, seconds=4.0)
    assert [line.split("   ")[1] for line in stream.getvalue().splitlines()[:-1]] == [
        "8 of 10 steps"
    ]
    assert last.startswith("epoch 2 of 3: loss 2, ")


def test_time_left_does_not_include_the_first_step(clock):
    stream = Terminal()
    callback = progress(stream)
    callback.on_epoch_begin(0)
    for step, seconds in enumerate([60.0, 2.0, 2.0]):
        clock[0] += seconds
        callback.on_train_batch_end(step, {"loss": 1.0})
    assert stream.getvalue().endswith("3 of 10 steps   loss 1   0.5 steps/s   0:54 left")


def test_time_left_does_not_include_compilations_for_further_shapes(clock, monkeypatch):
    compiled = [5.0]
    monkeypatch.setattr(_show_progress, "compilation_seconds", lambda: compiled[0])
    stream = Terminal()
    callback = progress(stream)
    callback.on_epoch_begin(0)
    for step, seconds in enumerate([60.0, 0.0, 30.0, 0.0]):
        compiled[0] += seconds
        clock[0] += seconds + 2.0
        callback.on_train_batch_end(step, {"loss": 1.0})
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines[0].endswith("1 of 10 steps   loss 1   0.5 steps/s   0:58 left")
    assert lines[-1].endswith("4 of 10 steps   loss 1   0.5 steps/s   0:52 left")


def test_compilation_seconds_count_each_new_shape():
    is_jax = keras.backend.backend() == "jax"
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    seconds = [compilation_seconds()]
    for size in (4, 4, 5):
        model.train_on_batch(np.ones((size, 2), "float32"), np.ones((size, 3), "float32"))
        seconds.append(compilation_seconds())
    start, first, again, further = seconds
    assert (first > start) is (further > again) is is_jax
    assert again == first


def test_compilations_inside_of_others_count_once(clock):
    listener = compilation_time._Listener()
    for end, duration in [(2.0, 1.0), (3.0, 0.5), (4.0, 4.0), (9.0, 2.0)]:
        clock[0] = end
        listener("/jax/core/compile/jaxpr_trace_duration", duration)
    listener("/jax/checkpoint/write", 50.0)
    assert listener.seconds == 6.0


def test_the_history_continues_after_an_interruption(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    for epochs in (2, 4):
        history = HistoryFile(tmp_path / "history.json", {"seed": 7})
        fit(
            model,
            *data,
            epochs=epochs,
            directory=tmp_path / "state",
            callbacks=[history],
            verbose=0,
        )
        content = json.loads((tmp_path / "history.json").read_text())
        assert len(content["history"]["loss"]) == epochs and content["seed"] == 7
        assert content["cpu_minutes"] > 0
    assert content["history"]["loss"] == sorted(content["history"]["loss"], reverse=True)


def test_numbers_that_json_lacks_are_null(tmp_path):
    history = HistoryFile(tmp_path / "history.json")
    history.on_train_begin()
    history.on_epoch_end(0, {"loss": math.nan, "f1": np.array([0.5, np.inf])})
    history.on_epoch_end(1, {"loss": 1.0, "val_bleu": 3.0})
    text = (tmp_path / "history.json").read_text()
    expected = {"loss": [None, 1.0], "f1": [[0.5, None], None], "val_bleu": [None, 3.0]}
    assert json.loads(text)["history"] == expected and "NaN" not in text


class Unused(keras.layers.Layer):
    """A layer with a weight that does not reach the output."""

    def build(self, shape):
        self.used = self.add_weight(name="used", shape=(shape[-1], 3))
        self.unused = self.add_weight(name="unused", shape=(5,))

    def call(self, inputs):
        return keras.ops.matmul(inputs, self.used)


def test_weights_without_gradient_and_a_loss_of_chance_are_noticed():
    found = []
    model = keras.Sequential([keras.Input((2,)), Unused(name="part")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-6), loss)
    warn = WarnOfProblems(vocabulary_size=3, warmup_steps=2, warn=found.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on TensorFlow, Keras warns of the missing gradient, too
        model.fit(
            np.ones((8, 2), "float32"), np.arange(8) % 3, 4, epochs=2, verbose=0, callbacks=[warn]
        )
    assert len(found) == 2
    assert "1 of 2 trainable weights have not changed" in found[0] and "part/unused" in found[0]
    assert "After the warm-up of 2 steps" in found[1] and "has 1.099" in found[1]


def test_a_rising_validation_loss_and_nan_are_noticed_once():
    found = []
    callback = WarnOfProblems(warn=found.append)
    for epoch, loss in enumerate([3.0, 2.0, 2.1, 2.2, 2.1, 2.2, 2.3]):
        callback.on_epoch_end(epoch, {"val_loss": loss})
    assert found == []
    restored = WarnOfProblems(warn=found.append)
    restored.set_state(callback.get_state())
    for epoch, loss in enumerate([2.4, 2.5], 7):
        restored.on_epoch_end(epoch, {"loss": math.nan, "val_loss": loss})
    rising, nan = sorted(found, key=lambda text: "NaN" in text)
    assert "increased in the epochs 6 to 8, from 2.1 to 2.4" in rising and "nan in epoch 8" in nan
