"""Estimates the duration of a training from its first steps."""

import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import keras

STEPS = 20
"""Number of steps that are measured. Their batches are a random sample of those of an epoch."""
_OF_A_TRAINING_STEP = 1 / 3
"""Time of a step without gradients, relative to one with gradients."""


def print_estimate(
    model: keras.Model,
    batches: Iterable[Any],
    steps: int,
    validation_steps: int,
    epochs: int,
    evaluates: bool = False,
) -> None:
    """Runs some steps twice, because the first time compiles, and prints the expected duration.

    Args:
        model: Compiled model. Its weights change.
        batches: Iterable of `(inputs, labels)` batches in random order.
        steps: Int, number of steps in an epoch.
        validation_steps: Int, number of validation batches in an epoch.
        epochs: Int, number of epochs.
        evaluates: Bool, whether the program evaluates between the epochs, for at most a tenth of
            the time. Defaults to `False`.
    """
    sample = list(islice(batches, STEPS))
    seconds = 0.0
    for _ in range(2):
        start = time.monotonic()
        for batch in sample:
            model.train_on_batch(*batch)
        seconds = (time.monotonic() - start) / len(sample)
    epoch = seconds * (steps + _OF_A_TRAINING_STEP * validation_steps)
    evaluation = ", plus up to a tenth for the evaluation" if evaluates else ""
    print(
        f"Dry run: {seconds:.3g} seconds a step, {epochs * steps:,} steps, about "
        f"{epochs * epoch / 60:.3g} minutes ({epoch / 60:.2g} an epoch){evaluation}, if other "
        "programs use the processor as much as now. Nothing was trained."
    )
