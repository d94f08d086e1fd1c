"""Two instances of the same model have the same fingerprint, also in one process."""

import functools

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.training import (
    ScheduledSampling,
    SequenceCrossentropy,
    compile_for_training,
    enable_lora,
)
from keras_attn.training.training_fingerprint import (
    differences_in_one_line,
    fingerprint_differences,
    training_fingerprint,
)
from tests.backend import precision
from tests.training.toy_training import ToyBatches


def recurrent(units=8):
    encoder, decoder = keras_attn.rnn_seq2seq(
        12, 12, embedding_dim=8, units=units, num_layers=2, dropout=0.1
    )
    return keras_attn.TrainingModel(encoder, ScheduledSampling(decoder, 0.25))


def transformer(num_heads=2):
    return keras_attn.TrainingModel(
        *keras_attn.transformer_seq2seq(
            12, 12, embedding_dim=8, num_layers=1, num_heads=num_heads, intermediate_dim=8
        )
    )


def of_keras(dropout=0.1):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(12, 8, mask_zero=True)(ids)
    x = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(x)
    x = keras.layers.TimeDistributed(keras.layers.Dense(8))(keras.layers.Dropout(dropout)(x))
    x = keras.layers.LayerNormalization()(x + keras.ops.tanh(x))
    return keras.Model(ids, keras.Sequential([keras.Input((None, 8)), keras.layers.Dense(12)])(x))


class Subclass(keras.Model):
    def __init__(self, units=12):
        super().__init__()
        self.embedding = keras.layers.Embedding(12, 8)
        self.dense = keras.layers.Dense(units)

    def call(self, inputs):
        return self.dense(self.embedding(inputs["source_ids"]))


def subclass(units=12):
    model = Subclass(units)
    model(ToyBatches().batch(0)[0])
    return model


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (recurrent, {"units": 6}),
        (transformer, {"num_heads": 4}),
        (of_keras, {"dropout": 0.2}),
        (subclass, {"units": 9}),
    ],
)
def test_fingerprint_changes_with_the_model_only(build, change):
    first, second = (training_fingerprint(compile_for_training(build())) for _ in range(2))
    assert fingerprint_differences(first, second) == []
    other = training_fingerprint(compile_for_training(build(**change)))
    (value,) = change.values()
    found = differences_in_one_line(fingerprint_differences(first, other))
    assert found.startswith("model") and f"now {value}" in found


def test_fingerprint_contains_low_rank_updates():
    def of(*arguments):
        model = transformer()
        enable_lora(model, *arguments)
        return training_fingerprint(compile_for_training(model))

    first = of(2, 4.0)
    assert fingerprint_differences(first, of(2, 4.0)) == []
    for other, message in (
        (of(2, 6.0), "alpha: saved 4.0, now 6.0"),
        (of(2, 4.0, ("query", "key")), "kernels.1: saved 'value', now 'key'"),
    ):
        found = fingerprint_differences(first, other)
        assert all(each.startswith("model.lora") for each in found)
        assert message in differences_in_one_line(found)


def test_fingerprint_leaves_out_a_learning_rate_that_is_a_number():
    def of(rate):
        return training_fingerprint(compile_for_training(transformer(), rate))["optimizer"]

    decay = keras.optimizers.schedules.CosineDecay
    assert of(0.1) == of(0.2)
    assert of(decay(0.1, 5)) == of(decay(0.1, 5)) != of(decay(0.1, 6))


def test_fingerprint_of_several_losses():
    def of(*losses):
        ids = keras.Input((4,))
        model = keras.Model(ids, [keras.layers.Dense(2)(ids), keras.layers.Dense(2)(ids)])
        model.compile("sgd", loss=list(losses))
        return training_fingerprint(model)

    def squared(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)

    first = of(SequenceCrossentropy(0.1), squared)
    assert fingerprint_differences(first, of(SequenceCrossentropy(0.1), squared)) == []
    (difference,) = fingerprint_differences(first, of(SequenceCrossentropy(0.2), squared))
    assert difference == "loss.0.label_smoothing: saved 0.1, now 0.2"
    assert len(fingerprint_differences(first, of(SequenceCrossentropy(0.1), "mse"))) == 1


SOURCE = """
FACTOR = {factor}
def other(y):
    return y * {other}
def make(power):
    {docstring}
    def loss(y_true, y_pred, scale={scale}):
        {docstring}
        return scale * FACTOR * other(abs(y_true - y_pred) ** power) + {bias}
    return loss
loss = make({power})
"""


def written(start="", name="train.py", docstring="''", **changes):
    """Returns a loss function compiled from source code, as if imported from a file."""
    values = {"factor": 1.5, "other": 2, "scale": 3, "bias": 4, "power": 2.0, **changes}
    names = {"__name__": "train"}
    exec(compile(start + SOURCE.format(docstring=docstring, **values), name, "exec"), names)
    return names["loss"]


class Power(keras.losses.Loss):
    """A loss whose configuration does not contain the power, like many user-defined losses."""

    def __init__(self, power):
        super().__init__()
        self._power = power

    def call(self, y_true, y_pred):
        return abs(y_true - y_pred) ** self._power


class Scale(keras.layers.Layer):
    """A layer with a function whose name is not in the configuration."""

    def __init__(self, function):
        super().__init__()
        self._functions = [function]

    def build(self, shape):
        self.scale = self.add_weight(shape=())

    def call(self, inputs):
        return self._functions[0](inputs * self.scale)


class Decay(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule without configuration."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / step


def small_model(loss="mse", activation=None, rate=0.1, **arguments):
    ids = keras.Input((4,))
    hidden = keras.layers.Dense(2, activation)(ids)
    outputs = {name: keras.layers.Dense(2, name=name)(hidden) for name in "ab"}
    model = keras.Model(ids, outputs)
    model.compile(keras.optimizers.SGD(rate), {"a": loss, "b": "mse"}, **arguments)
    return model


def power_of(power):
    return lambda x: x**power


VARIABLE = keras.Variable(1.0)


@pytest.mark.parametrize(
    "first, second, message",
    [
        ({"loss": written()}, {"loss": written(power=1.0)}, "loss.a.closure.power: saved 2.0, now"),
        ({"loss": written()}, {"loss": written(bias=5)}, "loss.a.code"),
        ({"loss": written()}, {"loss": written(scale=5)}, "loss.a.defaults.0: saved 3, now 5"),
        ({"loss": written()}, {"loss": written(factor=5)}, "loss.a.globals.FACTOR: saved 1.5, now"),
        ({"loss": written()}, {"loss": written(other=5)}, "loss.a.globals.other.code"),
        ({"loss": lambda y, z: y - z}, {"loss": lambda y, z: y + z}, "loss.a.code"),
        ({"loss": Power(2)}, {"loss": Power(1)}, "loss.a.attributes._power: saved 2, now 1"),
        ({"rate": Decay(0.1)}, {"rate": Decay(0.2)}, "learning_rate.attributes.rate: saved 0.1"),
        (
            {"loss": functools.partial(written(), scale=1)},
            {"loss": functools.partial(written(), scale=2)},
            "loss.a.keywords.scale: saved 1, now 2",
        ),
        (
            {"activation": power_of(2)},
            {"activation": power_of(3)},
            "model.functions.Dense.activation.function.closure.power: saved 2, now 3",
        ),
        (
            {"activation": Scale(power_of(2))},
            {"activation": Scale(power_of(3))},
            "model.functions.Scale._functions.function.0.closure.power: saved 2, now 3",
        ),
        (
            {"loss_weights": {"a": 1.0, "b": 0.5}},
            {"loss_weights": {"a": 1.0, "b": 0.25}},
            "loss_weights.b: saved 0.5, now 0.25",
        ),
        ({}, {"loss_weights": {"a": 0.0, "b": 1.0}}, "loss_weights: saved None"),
    ],
)
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_fingerprint_sees_code_and_its_values(first, second, message):
    saved, again, other = (
        training_fingerprint(small_model(**each)) for each in (first, first, second)
    )
    assert fingerprint_differences(saved, again) == []
    assert message in differences_in_one_line(fingerprint_differences(saved, other))


@pytest.mark.parametrize("name", ["loss", "activation"])
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_fingerprint_leaves_out_where_code_is(name):
    def of(function):
        return training_fingerprint(small_model(**{name: function}))

    found = [
        of(written()),
        of(written("# a line\n", "moved.py", "'What it computes.'")),
        of(written(power=2.0)),
    ]
    assert found[0] == found[1] == found[2]
    line = "act = lambda x: x * 2"
    lambdas = []
    for start in ("", "\n\n"):
        names = {"__name__": "train"}
        exec(compile(start + line, f"{len(start)}.py", "exec"), names)
        lambdas.append(of(names["act"]))
    assert lambdas[0] == lambdas[1] != of(lambda x: x * 3)


class Dice(keras.layers.Layer):
    def call(self, inputs):
        return inputs * 2


def settings_differences(change):
    """Differences between two models, of which the second is made after a change."""

    def fingerprint(**settings):
        model = keras.Sequential([keras.Input((2,)), Dice(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", **{"jit_compile": False, **settings})
        return training_fingerprint(model)

    saved = fingerprint()
    assert fingerprint_differences(saved, fingerprint()) == []
    return fingerprint_differences(saved, change(fingerprint))


@pytest.mark.filterwarnings("ignore:.*jit_compile")
def test_fingerprint_sees_the_settings_of_a_step():
    found = settings_differences(lambda make: make(jit_compile=True))
    assert found == ["step.jit_compile: saved False, now True"]
    found = settings_differences(lambda make: make(run_eagerly=True))
    assert found == ["step.run_eagerly: saved False, now True"]
    others = {"steps_per_execution": 1 if keras.backend.backend() == "torch" else 3}
    assert settings_differences(lambda make: make(weighted_metrics=["mae"], **others)) == []

    def with_epsilon(make):
        epsilon = keras.config.epsilon()
        keras.config.set_epsilon(1e-5)
        try:
            return make()
        finally:
            keras.config.set_epsilon(epsilon)

    assert settings_differences(with_epsilon) == ["step.epsilon: saved 1e-07, now 1e-05"]

    def with_policy(make):
        with precision("mixed_bfloat16"):
            return make()

    assert "step.dtype_policies.0: saved" in str(settings_differences(with_policy))


def test_fingerprint_sees_the_code_of_layers(monkeypatch):
    def changed(name, method):
        def change(make):
            with monkeypatch.context() as context:
                context.setattr(Dice, name, method, raising=False)
                return make()

        return settings_differences(change)

    (found,) = changed("call", lambda self, inputs: inputs * 3)
    assert found.startswith("step.methods.Dice.code.")
    (found,) = changed("helper", lambda self: 3)
    assert found.startswith("step.methods.Dice.code.")
    assert changed("test_step", lambda self, data: {}) == []


def test_fingerprint_of_an_earlier_version_has_no_settings_of_a_step():
    current = training_fingerprint(small_model())
    saved = {name: value for name, value in current.items() if name != "step"}
    assert fingerprint_differences(saved, current) == []


def test_fingerprint_leaves_out_what_training_changes():
    def loss(y_true, y_pred):
        return VARIABLE * weight * (y_true - y_pred)

    weight = keras.Variable(1.0)
    saved = training_fingerprint(small_model(loss, loss_weights={"a": 1, "b": 1.0}))
    weight.assign(2.0)
    assert training_fingerprint(small_model(loss)) == saved


def test_fingerprint_of_another_python_version_has_no_code_to_compare():
    saved = training_fingerprint(small_model(written()))
    checksums = saved["loss"]["a"]["code"]
    checksums["2.7"] = checksums.popitem()[1] + "other"
    assert fingerprint_differences(saved, training_fingerprint(small_model(written()))) == []


def test_fingerprint_of_data_sees_inputs_labels_and_types():
    class Changed(ToyBatches):
        def batch(self, step):
            inputs, labels = super().batch(step)
            return self.change(inputs, labels)

    def of(change):
        batches = Changed()
        batches.change = change
        return training_fingerprint(model, batches)["data"]["batches"]["0"]

    model = compile_for_training(transformer())
    found = {
        of(lambda inputs, labels: (inputs, labels)),
        of(lambda inputs, labels: (inputs, labels + 1)),
        of(lambda inputs, labels: ({**inputs, "source_ids": inputs["source_ids"] + 1}, labels)),
        of(lambda inputs, labels: (inputs, labels.astype("int64"))),
        of(lambda inputs, labels: (inputs, labels, np.ones(len(labels)))),
    }
    assert len(found) == 5
