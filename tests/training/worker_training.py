"""Trains the toy model as one of several workers or in a single process.

    python worker_training.py DIRECTORY KILL_STEP

Without the environment variables of `keras-attn launch`, the process trains alone. The state is in
DIRECTORY/state. Each worker writes its weights to DIRECTORY/weights-I.npz and a report to
DIRECTORY/report-I.json. Worker 1 kills itself at KILL_STEP (0: never).
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn._backend.worker_cluster import WorkerCluster
from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    SequenceCrossentropy,
    compile_for_training,
    fit,
    make_strategy,
)
from tests.training.toy_training import KillAt, ToyBatches, toy_translator

# Most batches cannot be halved; a batch of one sentence leaves a worker without sentences.
SIZES = (1, 5, 4, 3, 7, 1, 2, 3, 6, 5)
NUM_EPOCHS = 5  # each epoch has ten steps


def translator():
    """Returns a translator; each call creates the same weights."""
    keras.utils.set_random_seed(0)
    return toy_translator()


def train_by_package(directory, index, kill_step):
    """Trains with `compile_for_training` and `fit`: Adam, clipping, validation, callbacks."""
    with devices.scope():
        model = compile_for_training(translator(), 0.01, global_clipnorm=0.5)
    callbacks = [
        BestCheckpoint(directory / "best.keras", monitor="val_loss"),
        AverageWeights(directory / "average", num_epochs=2),
        keras.callbacks.CSVLogger(directory / "log.csv"),
        KillAt(kill_step if index == 1 else 0),
    ]
    history = fit(
        model,
        ToyBatches(SIZES),
        epochs=NUM_EPOCHS,
        directory=directory / "state",
        save_steps=4,
        validation_data=ToyBatches(SIZES[1:4], seed=1),
        callbacks=callbacks,
        verbose=0,
    )
    weights = model.get_weights()
    callbacks[1].apply()
    report = {
        "history": history.history,
        "best": callbacks[0].get_state(),
        "steps_run": callbacks[3].steps_run,
    }
    return report, weights, model.get_weights()


def train_in_float64():
    """Trains with `TrainingModel.fit`: float64, SGD, and a last batch of one sentence."""
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    with devices.scope():
        model = translator()
        model.compile(keras.optimizers.SGD(0.5), SequenceCrossentropy(fused=False))
    inputs, labels = ToyBatches((9,)).batch(0)
    model.fit(inputs, labels, batch_size=4, epochs=17, shuffle=False, verbose=0)
    return model.get_weights()


def main(directory, kill_step):
    cluster = WorkerCluster.from_environment()
    index = 0 if cluster is None else cluster.index
    report, weights, average = train_by_package(directory, index, kill_step)
    np.savez(directory / f"weights-{index}.npz", *weights)
    np.savez(directory / f"average-{index}.npz", *average)
    if keras.backend.backend() == "tensorflow":
        np.savez(directory / f"float64-{index}.npz", *train_in_float64())
    (directory / f"report-{index}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    devices = make_strategy(join_timeout=120)
    main(Path(sys.argv[1]), int(sys.argv[2]))
