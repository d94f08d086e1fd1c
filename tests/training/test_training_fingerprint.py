"""Two instances of the same model have the same fingerprint, also in one process."""

import functools
import json

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
from keras_attn.training._fingerprint_differences import (
    differences_in_one_line,
    fingerprint_differences,
)
from keras_attn.training._training_fingerprint import training_fingerprint
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
        inputs = keras.Input((5, 8))
        model = keras.Model(inputs, keras_attn.TransformerEncoderBlock(2, 8)(inputs))
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
        return training_fingerprint(compile_for_training(subclass(), rate))["optimizer"]

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


def scaled(y_true, y_pred, scale=2.0):
    return scale * abs(y_true - y_pred)


class Power(keras.losses.Loss):
    """A loss whose configuration does not contain the power, like many user-defined losses."""

    def __init__(self, power):
        super().__init__()
        self._power = power

    def call(self, y_true, y_pred):
        return abs(y_true - y_pred) ** self._power


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


@pytest.mark.parametrize(
    "first, second, message",
    [
        ({"loss": scaled}, {"loss": "mse"}, "loss.a: saved 'scaled', now 'mse'"),
        ({"loss": scaled}, {"loss": Power(1)}, "loss.a: saved 'scaled', now"),
        ({"loss": "mse"}, {"loss": functools.partial(scaled)}, "now 'partial'"),
        ({"rate": Decay(0.1)}, {"rate": 0.1}, "learning_rate: saved 'Decay'"),
        ({"activation": "relu"}, {"activation": lambda x: x}, "activation: saved 'relu', now {}"),
        (
            {"loss_weights": {"a": 1.0, "b": 0.5}},
            {"loss_weights": {"a": 1.0, "b": 0.25}},
            "loss_weights.b: saved 0.5, now 0.25",
        ),
        ({}, {"loss_weights": {"a": 0.0, "b": 1.0}}, "loss_weights: saved None"),
    ],
)
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_fingerprint_names_functions_and_weights(first, second, message):
    saved, again, other = (
        training_fingerprint(small_model(**arguments)) for arguments in (first, first, second)
    )
    assert fingerprint_differences(saved, again) == []
    assert message in differences_in_one_line(fingerprint_differences(saved, other))


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize("name", ["loss", "activation"])
def test_fingerprint_leaves_out_code(name):
    functions = [lambda *inputs: inputs[0] * 2, lambda *inputs: inputs[0] * 3]
    first, second = (training_fingerprint(small_model(**{name: each})) for each in functions)
    assert first == second


CODE = {"3.11": "e8ac0f95"}
FUNCTION = {"function": "scaled", "code": CODE, "defaults": [2.0]}


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize(
    "loss, saved_loss",
    [
        (scaled, FUNCTION),
        (functools.partial(scaled, scale=3), {"partial": FUNCTION, "keywords": {"scale": 3}}),
        (
            Power(2),
            {
                "class_name": "Power",
                "config": {"reduction": "sum_over_batch_size"},
                "attributes": {"_power": 2},
                "code": CODE,
            },
        ),
        (Power(2).call, {"method": {"function": "Power.call", "code": CODE}, "of": "Power"}),
        (Decay(2), {"class_name": "Decay", "attributes": {"rate": 2}, "code": CODE}),
    ],
)
def test_fingerprint_of_an_earlier_version_describes_code(loss, saved_loss):
    """The form of the fingerprint until version 0.1.0, with checksums of byte code."""
    current = training_fingerprint(small_model(loss, activation=lambda x: x, rate=Decay(0.1)))
    saved = json.loads(json.dumps(current))
    saved["loss"]["a"] = saved_loss
    saved["model"]["functions"] = [{"name": "Dense.activation", "function": FUNCTION}]
    dense = saved["model"]["config"]["layers"][1]["config"]
    dense["activation"] = {"code": CODE, "defaults": None, "closure": None}
    optimizer = saved["optimizer"]["config"]
    optimizer["learning_rate"] = {"class_name": "Decay", "attributes": {"rate": 1}, "code": CODE}
    saved["step"]["methods"] = {"Dice": {"code": CODE}}
    assert fingerprint_differences(saved, current) == []
    other = training_fingerprint(small_model("mse", "relu", 0.1))
    differences = fingerprint_differences(saved, other)
    names = ("loss.a", "model.layers.dense.activation", "optimizer.learning_rate")
    assert all(any(each.startswith(name) for each in differences) for name in names)


def settings_differences(change):
    """Differences between two models, of which the second is made after a change."""

    def fingerprint(**settings):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
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


def test_fingerprint_of_an_earlier_version_has_no_settings_of_a_step():
    current = training_fingerprint(small_model())
    saved = {name: value for name, value in current.items() if name != "step"}
    assert fingerprint_differences(saved, current) == []


def test_fingerprint_of_data_sees_inputs_labels_and_types():
    class Changed(ToyBatches):
        def batch(self, step):
            inputs, labels = super().batch(step)
            return self.change(inputs, labels)

    def of(change):
        batches = Changed()
        batches.change = change
        return training_fingerprint(model, batches)["data"]["batches"]["0"]

    model = compile_for_training(subclass())
    found = {
        of(lambda inputs, labels: (inputs, labels)),
        of(lambda inputs, labels: (inputs, labels + 1)),
        of(lambda inputs, labels: ({**inputs, "source_ids": inputs["source_ids"] + 1}, labels)),
        of(lambda inputs, labels: (inputs, labels.astype("int64"))),
        of(lambda inputs, labels: (inputs, labels, np.ones(len(labels)))),
    }
    assert len(found) == 5
