"""Training of a program: the callbacks that all programs use, resuming, and interruptions."""

import importlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.training import HistoryFile, ShowProgress, fit
from keras_attn_commands.train import run_files
from keras_attn_commands.train.settings import TrainingSettings, values_of


def run_training(
    settings: TrainingSettings,
    trainer: keras.Model,
    batches: object,
    callbacks: Sequence[keras.callbacks.Callback],
    progress: ShowProgress,
    **options: Any,
) -> keras.callbacks.History:
    """Trains a model in its run directory, or continues its training.

    Args:
        settings: Settings of the program, with the number of epochs.
        trainer: Compiled `keras.Model`.
        batches: Data of the training, see `keras_attn.training.fit`.
        callbacks: Callbacks of the program, before those of all programs.
        progress: `ShowProgress`.
        **options: Further arguments of `fit`.

    Returns:
        `keras.callbacks.History` of all epochs.

    Raises:
        KeyboardInterrupt: If the user interrupts the training. The message says how to continue.
        ValueError: If the loss is NaN or infinite in every epoch.
    """
    run_dir = settings.run_dir
    started = run_files.finished_epochs(run_dir)
    if 0 < started < settings.epochs:
        print(f"Continues the training of {run_dir} after {started} of {settings.epochs} epochs.")
    history = HistoryFile(run_dir / run_files.HISTORY, {"arguments": values_of(settings)})
    callbacks = [*callbacks, history]
    if settings.patience:
        callbacks.append(keras.callbacks.EarlyStopping("val_loss", patience=settings.patience))
    if settings.tensorboard:
        callbacks.append(_make_tensorboard(run_dir))
    try:
        fitted = fit(
            trainer,
            batches,
            epochs=settings.epochs,
            directory=run_dir / "state",
            callbacks=[*callbacks, progress],
            verbose=0,
            **options,
        )
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"Stopped {progress.position}. Run the same command to continue."
        ) from error
    losses = fitted.history.get("loss", [])
    if losses and not np.isfinite(losses).any():
        raise ValueError(
            f"Expected a finite loss. Received: loss={losses[-1]} in every epoch, and weights that "
            "no model can use. Train again with --overwrite and a lower --learning-rate, or look "
            "for NaN in the data."
        )
    return fitted


def make_schedule(learning_rate: float, steps: int, warmup_steps: int) -> Any:
    """Returns a learning rate that rises in the first steps, and then falls to 0 as a cosine."""
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, steps - warmup_steps),
        warmup_target=learning_rate,
        warmup_steps=warmup_steps,
    )


def _make_tensorboard(run_dir):
    """Returns the callback that writes logs for TensorBoard."""
    try:
        importlib.import_module("tensorboard")
    except ImportError as error:
        raise ImportError(
            "--tensorboard needs TensorBoard. Install it: `pip install '.[tensorboard]'` in a "
            "checkout."
        ) from error
    return keras.callbacks.TensorBoard(str(run_dir / "tensorboard"))
