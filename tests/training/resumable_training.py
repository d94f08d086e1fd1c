"""Trains the toy model in a separate process that can be killed at a step.

    python resumable_training.py DIRECTORY KILL_STEP

Trains for 3 epochs of 8 steps with its state in DIRECTORY. Writes DIRECTORY/weights.npz and
DIRECTORY/report.json at the end. The process kills itself at KILL_STEP (0: never).
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    InverseSquareRootSchedule,
    compile_for_training,
    fit,
)
from keras_attn.training._training_checkpoint import TrainingCheckpoint
from tests.training.toy_training import KillAt, ToyBatches, toy_translator


def main(directory, kill_step):
    keras.utils.set_random_seed(0)
    model = compile_for_training(toy_translator(dropout=0.5), InverseSquareRootSchedule(0.02, 5))
    batches = ToyBatches(sizes=(4, 5, 1, 3, 6, 2, 4, 3))
    best = BestCheckpoint(directory / "best.weights.h5", monitor="val_loss")
    average = AverageWeights(directory / "average", num_epochs=2)
    counter = KillAt(kill_step)
    history = fit(
        model,
        batches,
        epochs=3,
        directory=directory / "state",
        save_steps=3,
        validation_data=ToyBatches(sizes=(5, 2), seed=1),
        callbacks=[best, average, counter],
        verbose=0,
    )
    checkpoint = TrainingCheckpoint(directory / "state", 8, 3, callbacks=[best, average])
    checkpoint.restore(model)
    np.savez(
        directory / "weights.npz",
        *[keras.ops.convert_to_numpy(variable) for variable in model.variables],
        *[keras.ops.convert_to_numpy(variable) for variable in model.optimizer.variables],
    )
    report = {
        "steps_run": counter.steps_run,
        "finished": checkpoint.finished,
        "history": history.history,
        "best": best.get_state(),
        "average": average.get_state(),
    }
    (directory / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
