"""Trains the toy model on one and on three JAX devices and writes the logs as JSON.

The number of CPU devices must be set before JAX starts, so the test runs this in a separate
process.
"""

import json
import sys
from pathlib import Path

import jax
import keras

from keras_attn.training import SequenceCrossentropy, compile_for_training, fit
from tests.training.toy_training import ToyBatches, toy_model

SIZES = (1, 5, 4, 3, 7, 2)  # most are not divisible by three


def train(devices):
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    keras.utils.set_random_seed(0)
    model = compile_for_training(toy_model(), 0.02)
    sizes = ToyBatches(SIZES), ToyBatches(SIZES[:3], seed=1)
    logs = fit(model, sizes[0], epochs=3, validation_data=sizes[1], verbose=0).history
    x, y = ToyBatches((8,)).batch(0)
    arrays = fit(model, x, y, batch_size=5, shuffle=False, verbose=0).history
    logs |= {f"{name} of arrays": values for name, values in arrays.items()}
    kernel = model.trainable_variables[0].value
    return {"logs": logs, "devices": len(kernel.sharding.device_set)}


def main(path):
    devices = keras.distribution.list_devices("cpu")
    report = {"one": train(devices[:1]), "three": train(devices[:3])}
    # The label to ignore can differ from 0.
    model = toy_model()
    loss = SequenceCrossentropy(ignore_class=-100)
    model.compile("sgd", loss)
    report["other class"] = fit(model, ToyBatches(SIZES), epochs=1, verbose=0).history
    path.write_text(json.dumps(report))


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 3)
    main(Path(sys.argv[1]))
