import contextlib
import os
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_attn.training.checkpoint_file import (
    read_checkpoint,
    require_directory,
    write_checkpoint,
)


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves the whole state of a training, so that it can go on after a kill as if never stopped.

    The state is every variable of the model (also the seeds of dropout) and of the optimizer, the
    number of steps done, the logs of the ended epochs, and what the other callbacks want stored.
    It is saved every `save_steps` steps and at the end of each epoch, after validation, unless a
    weight is not finite: nothing can go on from there. The file is replaced in one step and the one
    before it is kept. `keras_attn.training.fit` uses this
    callback; it must be the last one, so that it sees what the others did.

    Random numbers drawn from Keras' global generator (`keras.random` without a `SeedGenerator`)
    have no variable in the model, and start anew.

    Args:
        directory: where `training.npz` and `training-previous.npz` are.
        steps_per_epoch: int, batches per epoch.
        epochs: int, epochs of the whole training.
        save_steps: int >= 1, steps between two saves. Default 1000.
        callbacks: callbacks whose state is stored too: those that have `get_state()`, giving what
            JSON can hold, and `set_state(state)`.

    Attributes:
        step: int, steps done since the beginning of the training.
        stopped: bool, whether a callback ended the training early (`model.stop_training`).
        finished: bool, whether nothing is left to do.
        history: dict from names to lists, the logs of the ended epochs.
    """

    def __init__(self, directory, steps_per_epoch, epochs, save_steps=1000, callbacks=()):
        super().__init__()
        if save_steps < 1:
            raise ValueError(
                f"Expected save_steps of at least 1. Received: save_steps={save_steps}"
            )
        self.directory = Path(directory)
        self.steps_per_epoch = steps_per_epoch
        self.epochs = epochs
        self.save_steps = save_steps
        self.callbacks = [callback for callback in callbacks if hasattr(callback, "get_state")]
        self.step = 0
        self.stopped = False
        self.history = {}
        self._saved_step = 0
        self._newest_is_damaged = False

    @property
    def finished(self):
        return self.stopped or self.step >= self.epochs * self.steps_per_epoch

    async_safe = True
    """Keras need not wait for the device before it calls `on_train_batch_end`."""

    def on_train_begin(self, logs=None):
        require_directory(self.directory)  # not only after the first hour

    def on_epoch_begin(self, epoch, logs=None):
        self._first_step = self.step
        self._ended_batches = []

    # Not on_train_batch_end, which Keras may call from another thread, later.
    def on_train_batch_begin(self, batch, logs=None):
        self.step = self._first_step + batch
        if self.step - self._saved_step >= self.save_steps:
            self.save()

    # Keras begins a batch before it knows whether there is one.
    def on_train_batch_end(self, batch, logs=None):
        self._ended_batches.append(batch)

    def on_epoch_end(self, epoch, logs=None):
        model = self.model
        end = (epoch + 1) * self.steps_per_epoch
        if self._first_step + max(self._ended_batches, default=-1) + 1 < end:
            if model.stop_training:
                return  # In the middle of an epoch, as TerminateOnNaN does: not a state to keep.
            raise ValueError(
                f"Expected batches without end, {self.steps_per_epoch} of them per epoch. "
                "Received: fewer. Check the batches' steps_per_epoch."
            )
        self.step = end
        self.stopped = model.stop_training
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(float(value))
        self.save()

    def save(self):
        """Saves the state, if all weights are finite. Called by `fit` at the right times."""
        weights = map(keras.ops.convert_to_numpy, self.model.trainable_variables)
        if not all(np.isfinite(weight).all() for weight in weights):
            warnings.warn(
                f"Expected finite weights. Received: others at step {self.step}, which are not "
                f"saved in {str(self.directory)!r}. The learning rate may be too high, or a label "
                "outside of the vocabulary that is not the ignore_class of the loss.",
                stacklevel=2,
            )
            return
        facts = {
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "stopped": self.stopped,
            "history": self.history,
            "callback_names": _names(self.callbacks),
            "callbacks": [callback.get_state() for callback in self.callbacks],
        }
        arrays = [keras.ops.convert_to_numpy(variable) for variable in self._variables()]
        newest, previous = self._paths()
        if newest.exists() and not self._newest_is_damaged:
            os.replace(newest, previous)
        write_checkpoint(newest, arrays, facts)
        self._newest_is_damaged = False
        self._saved_step = self.step

    def restore(self, model):
        """Sets the model, its optimizer and the callbacks to the state saved last.

        A damaged newest file gives a warning, and the one before it is used.

        Args:
            model: built and compiled `keras.Model`.

        Returns:
            bool, whether there was a state.

        Raises:
            ValueError: all files are damaged, or are of another model, optimizer, list of
                callbacks or number of steps per epoch.
        """
        self.set_model(model)
        for partial in self.directory.glob(".partial-*-training.npz"):  # of a killed save
            partial.unlink()
        # A killed save may have left the previous file alone.
        paths = [path for path in self._paths() if path.exists()]
        for path in paths:
            try:
                arrays, facts = read_checkpoint(path)
            except ValueError as error:
                warnings.warn(f"{error} Trying an older one.", stacklevel=2)
            else:
                self._set_state(path, arrays, facts)
                self._newest_is_damaged = path != paths[0]
                return True
        if paths:
            raise ValueError(
                "Expected an undamaged checkpoint. "
                f"Received: directory={str(self.directory)!r}, where all are damaged. "
                "Delete them to start anew."
            )
        return False

    def _set_state(self, path, arrays, facts):
        optimizer = self.model.optimizer
        if not optimizer.built:  # that of Keras for float16 would make its variables again
            with _scope_of(self.model):
                optimizer.build(self.model.trainable_variables)
        variables = self._variables()
        _check(path, "steps per epoch", self.steps_per_epoch, facts["steps_per_epoch"])
        _check(path, "callbacks", _names(self.callbacks), facts["callback_names"])
        _check(path, "variables", len(variables), len(arrays))
        for variable, array in zip(variables, arrays, strict=True):
            _check(path, f"{variable.path} of shape", tuple(variable.shape), array.shape)
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)
        for callback, state in zip(self.callbacks, facts["callbacks"], strict=True):
            callback.set_state(state)
        self.step = self._saved_step = facts["step"]
        self.stopped = facts["stopped"]
        self.history = facts["history"]

    def _variables(self):
        return [*self.model.variables, *self.model.optimizer.variables]

    def _paths(self):
        return self.directory / "training.npz", self.directory / "training-previous.npz"


def _names(callbacks):
    return [type(callback).__name__ for callback in callbacks]


def _check(path, name, expected, received):
    if expected != received:
        raise ValueError(
            f"Expected a checkpoint of this training, with {name} {expected}. Received: "
            f"{str(path)!r} with {received}. Use another directory, or delete the file."
        )


def _scope_of(model):
    """Where the optimizer's variables must be made: the strategy of a model on TensorFlow."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.scope()
    return contextlib.nullcontext()
