"""Two builds of the same model have the same fingerprint, also in one process."""

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.training import ScheduledSampling, SequenceCrossentropy, compile_for_training
from keras_attn.training.training_fingerprint import (
    differences_in_one_line,
    fingerprint_differences,
    training_fingerprint,
)
from tests.training.toy_training import ToyBatches


def recurrent(units=8):
    encoder, decoder = keras_attn.rnn_seq2seq(
        12, 12, embedding_dim=8, units=units, num_layers=2, dropout=0.1
    )
    return keras_attn.training_model(encoder, ScheduledSampling(decoder, 0.25))


def transformer(num_heads=2):
    return keras_attn.training_model(
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
