import contextlib
import os
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from keras_attn._backend.workers import gather_from_workers, is_chief
from keras_attn._files.checkpoint_file import (
    read_checkpoint,
    write_checkpoint,
)
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import Tensor
from keras_attn.training.finite_weights import FiniteWeights, warn_of_nonfinite_weights
from keras_attn.training.training_fingerprint import (
    differences_in_one_line,
    fingerprint_differences,
    training_fingerprint,
)


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves the whole state of a training, so that it can resume after a kill.

    The state is every variable of the model (also the seeds of dropout) and of the optimizer, the
    number of steps, the logs of the ended epochs, the state of other callbacks, and a fingerprint
    of the model, the optimizer, the loss and the data (see `keras_attn.training.fit`). It is saved
    every `save_steps` steps and at the end of each epoch, after validation, unless a variable of
    the model or of the optimizer became NaN or infinite. The file is replaced atomically and the
    one before it is kept. Where several workers train the model, the chief writes the files, and
    `restore` reads them in all workers.
    `keras_attn.training.fit` uses this callback. It must be the last one, so that it sees what the
    others did. While it trains, no other training can use the directory.

    Random numbers drawn from Keras' global generator (`keras.random` without a `SeedGenerator`)
    have no variable in the model, and start anew.

    Args:
        directory: where `training.npz` and `training-previous.npz` are.
        steps_per_epoch: int, batches per epoch.
        epochs: int, epochs of the whole training.
        save_steps: int >= 1, steps between two saves. Default 1000.
        callbacks: callbacks whose state is stored too: those that have `get_state()`, which returns
            what JSON can hold, and `set_state(state)`. A callback that the saved state lacks starts
            from its beginning.
        batches: optional batches of `fit`, whose fingerprint is stored too.
        on_mismatch: `"error"` or `"warn"`, what `restore` does if the saved state is of another
            model, optimizer, loss or data. Default `"error"`.

    Attributes:
        step: int, steps done since the beginning of the training.
        stopped: bool, whether a callback ended the training early (`model.stop_training`).
        finished: bool, whether nothing is left to do.
        history: dict from names to lists, the logs of the ended epochs.
    """

    model: Any

    def __init__(
        self,
        directory: str | PathLike[str],
        steps_per_epoch: int,
        epochs: int,
        save_steps: int = 1000,
        callbacks: Sequence[Any] = (),
        batches: Any = None,
        on_mismatch: str = "error",
    ) -> None:
        super().__init__()
        check_positive_integer("save_steps", save_steps)
        if on_mismatch not in ("error", "warn"):
            raise ValueError(
                f'Expected on_mismatch "error" or "warn". Received: on_mismatch={on_mismatch!r}'
            )
        self.directory = Path(directory)
        self.lock = PathLock(directory, "training")
        self.batches = batches
        self.on_mismatch = on_mismatch
        self.steps_per_epoch = steps_per_epoch
        self.epochs = epochs
        self.save_steps = save_steps
        self.callbacks = [callback for callback in callbacks if hasattr(callback, "get_state")]
        self.step = 0
        self.stopped = False
        self.history = {}
        self._saved_step = 0
        self._newest_is_damaged = False
        self._fingerprint = None
        self._finite_weights: Any = None
        self._release_at_end = self._warned = False

    @property
    def finished(self) -> bool:
        return self.stopped or self.step >= self.epochs * self.steps_per_epoch

    async_safe = True
    """Keras need not wait for the device before it calls `on_train_batch_end`."""

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._finite_weights = FiniteWeights.of(model, self._finite_weights)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # It also shows that the directory can be written, not only after the first hour.
        self._release_at_end = is_chief(self.model) and self.lock.acquire()  # False: `fit` holds it
        self._current_fingerprint()  # before the training changes attributes of losses
        self._warned = False

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._release_at_end:
            self.lock.release()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first_step = self.step
        self._ended_batches = []

    # Not on_train_batch_end, which Keras may call from another thread, later.
    def on_train_batch_begin(self, batch: int | Tensor, logs: dict[str, Any] | None = None) -> None:
        self.step = self._first_step + batch
        if self.step - self._saved_step >= self.save_steps:
            self.save()

    # Keras begins a batch before it knows whether there is one.
    def on_train_batch_end(self, batch: int | Tensor, logs: dict[str, Any] | None = None) -> None:
        self._ended_batches.append(batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
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

    def save(self) -> None:
        """Saves the state, if all variables are finite. Called by `fit` at the right times."""
        problem = self._finite_weights.problem(self.model)
        if problem is not None:
            if not self._warned:
                self._warned = True
                warn_of_nonfinite_weights(
                    problem,
                    f"at step {self.step}. States are not saved anymore; the last one, of step "
                    f"{self._saved_step}, stays in {str(self.directory)!r}",
                )
            return
        if not is_chief(self.model):
            self._saved_step = self.step
            return
        facts = {
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "stopped": self.stopped,
            "history": self.history,
            "fingerprint": self._current_fingerprint(),
            "callback_names": _names(self.callbacks),
            "callbacks": [callback.get_state() for callback in self.callbacks],
        }
        arrays = [keras.ops.convert_to_numpy(variable) for variable in self._variables()]
        newest, previous = self._paths()
        if newest.exists() and not self._newest_is_damaged:
            os.replace(newest, previous)
        write_checkpoint(newest, arrays, facts, like=previous)
        self._newest_is_damaged = False
        self._saved_step = self.step

    def restore(self, model: keras.Model) -> bool:
        """Sets the model, its optimizer and the callbacks to the state saved last.

        A damaged newest file gives a warning, and the one before it is used.

        Args:
            model: built and compiled `keras.Model`.

        Returns:
            bool, whether there was a state.

        Raises:
            ValueError: all files are damaged, or the state is of another model, optimizer, loss or
                data. With `on_mismatch="warn"` it must only have variables of the same shapes.
            RuntimeError: the workers that train the model do not see the same state.
        """
        self.set_model(model)
        restored = self._restore()
        steps = gather_from_workers(model, self.step if restored else -1)
        if len(set(steps)) > 1:
            raise RuntimeError(
                "Expected the same saved state in all workers. Received: "
                f"directory={str(self.directory)!r}, with the state of steps {steps} in workers "
                f"{list(range(len(steps)))}, where -1 is no state. Use a directory that all "
                "machines share."
            )
        return restored

    def _restore(self):
        # A killed save may have left the previous file alone.
        paths = [path for path in self._paths() if path.exists()]
        for path in paths:
            try:
                arrays, facts = read_checkpoint(path)
            except ValueError as error:
                warnings.warn(f"{error} Trying an older one.", stacklevel=3)
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
        self._compare(path, facts)
        _check(path, "variables", len(variables), len(arrays))
        for variable, array in zip(variables, arrays, strict=True):
            _check(path, f"{variable.path} of shape", tuple(variable.shape), array.shape)
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)
        states = list(zip(facts["callback_names"], facts["callbacks"], strict=True))
        for callback in self.callbacks:
            name = type(callback).__name__
            state = next((each for each in states if each[0] == name), None)
            if state is not None:
                states.remove(state)
                callback.set_state(state[1])
        self.step = facts["step"]
        if facts["steps_per_epoch"] != self.steps_per_epoch:  # the epochs that ended count
            self.step = self.step // facts["steps_per_epoch"] * self.steps_per_epoch
        self._saved_step = self.step
        self.stopped = facts["stopped"]
        self.history = facts["history"]

    def _compare(self, path, facts):
        """Raises or warns if a state is of another training."""
        saved = facts.get("fingerprint")
        differences = []
        if facts["steps_per_epoch"] != self.steps_per_epoch:
            steps = facts["steps_per_epoch"], self.steps_per_epoch
            differences.append("data.steps_per_epoch: saved {}, now {}".format(*steps))
        if saved is not None:
            found = fingerprint_differences(saved, self._current_fingerprint())
            differences += [each for each in found if each not in differences]
        if differences:
            message = (
                "Expected the model, optimizer, loss and data that the saved state is of. "
                f"Received: {differences_in_one_line(differences)}, in {str(path)!r}. "
            )
            if self.on_mismatch == "error":
                raise ValueError(
                    f"{message}Use another directory, delete this one to start from the beginning, "
                    'or accept the change with on_mismatch="warn".'
                )
            warnings.warn(
                f'{message}Training goes on, because of on_mismatch="warn".', stacklevel=6
            )
        if saved is None:
            warnings.warn(
                "Expected a saved state with a fingerprint of its training. Received: "
                f"{str(path)!r}, which an earlier version wrote. It cannot be checked whether "
                "model, optimizer, loss and data are the same.",
                stacklevel=6,
            )

    def _current_fingerprint(self):
        if self._fingerprint is None:
            self._fingerprint = training_fingerprint(self.model, self.batches)
        return self._fingerprint

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
