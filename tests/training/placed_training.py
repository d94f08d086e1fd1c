"""Trains a translator on one and on three logical CPUs and writes the results as JSON.

Devices can be configured only once per process, so the tests run this in a separate process.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import keras_attn
from keras_attn.training import compile_for_training, device_report, fit, place_parts
from tests.training.toy_training import VOCABULARY_SIZE, ToyBatches

DEVICES = {"encoder": "CPU:1", "attention": "/device:CPU:2", "decoder": "CPU:0"}


def train(make, devices):
    keras.utils.set_random_seed(0)
    encoder, decoder = make()
    if devices:
        place_parts(encoder, decoder, devices)
    model = compile_for_training(keras_attn.TrainingModel(encoder, decoder), 0.02)
    history = fit(model, ToyBatches((4, 5, 1, 3, 4)), epochs=4, verbose=0).history
    search = keras_attn.BeamDecoder(decoder, beam_width=2, max_length=6)
    translator = keras_attn.GenerationModel(encoder, search)
    ids = translator.predict(ToyBatches((4,)).batch(0)[0]["source_ids"], verbose=0)
    attention = decoder.cell.attention.weights if make is rnn else []
    inside = {id(weight) for weight in attention}
    rest = [weight for weight in decoder.weights if id(weight) not in inside]
    parts = {"encoder": encoder.weights, "attention": attention, "decoder": rest}
    return translator, {
        "loss": history["loss"],
        "ids": np.asarray(ids["token_ids"] if isinstance(ids, dict) else ids).tolist(),
        "report": device_report(model),
        "weights": {
            name: sorted({weight.value.device[-5:] for weight in weights})
            for name, weights in parts.items()
        },
    }


def rnn():
    return keras_attn.rnn_seq2seq(
        VOCABULARY_SIZE, VOCABULARY_SIZE, embedding_dim=8, units=8, attention="bahdanau"
    )


def transformer():
    return keras_attn.transformer_seq2seq(
        VOCABULARY_SIZE,
        VOCABULARY_SIZE,
        embedding_dim=8,
        num_layers=1,
        num_heads=2,
        intermediate_dim=8,
    )


def main(directory):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    report = {}
    for make in (rnn, transformer):
        _, one = train(make, None)
        devices = DEVICES
        if make is transformer:
            devices = {"encoder": "CPU:1", "decoder": "CPU:2"}
        placed, three = train(make, devices)
        report[make.__name__] = {"one": one, "three": three}
    placed.save(directory / "placed.keras")
    (directory / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
