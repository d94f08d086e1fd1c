import os
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
from keras.callbacks import Callback

from keras_attn._backend.random_state import get_random_state
from keras_attn._backend.workers import gather_from_workers, is_chief
from keras_attn._files.checkpoint_file import read_checkpoint, write_checkpoint
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorDict
from keras_attn.training._build_from_data import build_optimizer
from keras_attn.training._callback_states import (
    get_state,
    has_state,
    reject_overwritten_averages,
    state_key,
)
from keras_attn.training._dataset_batches import Batches
from keras_attn.training._finite_weights import warn_of_nonfinite_weights
from keras_attn.training._locked_callback import LockedCallback
from keras_attn.training._restored_state import (
    RestoredState,
    epoch_begin_scalars,
    saved_variables,
)
from keras_attn.training._saved_state import (
    EpochBeginState,
    SavedFacts,
    check_completeness,
    check_fingerprint,
    check_variables,
)
from keras_attn.training._step_batches import OnMismatch
from keras_attn.training._training_fingerprint import training_fingerprint
from keras_attn.training._unsaved_attributes import UnsavedAttributes
from keras_attn.training._untracked_state import (
    TrainedLayers,
    objects_of_user,
    untracked_variables,
)


class TrainingCheckpoint(LockedCallback):
    """Saves the complete training state, so that the training can resume after a crash.

    The state contains:

    - all variables of the model (including dropout seeds) and the optimizer, and within an epoch
      those of the metrics
    - the number of steps and the logs of the finished epochs
    - the states of `callbacks`
    - the global random generators of Python, NumPy, Keras and PyTorch
    - a fingerprint of model, optimizer, loss and data (see `keras_attn.training.fit`)

    The callback saves the state every `save_steps` steps and at the end of each epoch after
    validation. It does not save NaN or infinite variables. The file is replaced atomically, and the
    previous file is kept. If several workers train the model, the chief worker writes the files,
    and all workers read them in `restore`. With `EarlyStopping(restore_best_weights=True)`, the
    file also contains the best weights.

    `keras_attn.training.fit` adds this callback. In `model.fit`, it must be the last callback in
    the list, so that it saves the changes of all other callbacks. During training, the callback
    locks the directory, so no other training can write to it.

    `fit` restores the states of callbacks after their `on_train_begin`. With `model.fit`, you call
    `restore` earlier, and `on_train_begin` of some Keras callbacks, such as `EarlyStopping`, clears
    the restored state.

    Args:
        directory: Path of the directory for `training.npz` and `training-previous.npz`.
        steps_per_epoch: Positive int, number of batches per epoch.
        epochs: Positive int, total number of epochs.
        save_steps: Positive int, number of steps between two saves. Defaults to `1000`.
        callbacks: List of callbacks whose state is saved: Keras callbacks, and callbacks with the
            methods `get_state()` and `set_state(state)`. `get_state` must return nested lists and
            dicts with NumPy arrays and values that JSON can represent. A callback that is missing
            in the saved state keeps its initial state. Defaults to `()`.
        batches: The `batches` of `fit`, for the fingerprint. Defaults to `None`: the fingerprint
            does not include the data.
        on_mismatch: String, `"error"` or `"warn"`: what `restore` does if the saved fingerprint
            differs. Defaults to `"error"`.

    Attributes:
        step: Int, number of steps since the beginning of the training.
        stopped: Bool, whether a callback stopped the training early (`model.stop_training`).
        finished: Bool, whether all epochs have finished or the training was stopped.
        history: Dict from names to lists, the logs of the finished epochs.
        data: List of objects that `fit` reads. They are saved if they have the methods
            `get_state()` and `set_state(state)`.
        restored: The restored state until the next epoch begins, otherwise `None`.
        epoch_begin: The result of `epoch_begin_state`, or `None`.
        first_batch: Int, index of the batch at which the next epoch starts. Above 0 only if the
            training resumes within an epoch. Defaults to 0.

    Raises:
        ValueError: If an int is not positive, `on_mismatch` is invalid or an epoch does not contain
            `steps_per_epoch` batches.
        OSError: If the directory cannot be written.
        RuntimeError: If another training uses the directory.

    Example:

    >>> import tempfile
    >>> import keras
    >>> import numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((8, 3)), np.ones((8, 2))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     checkpoint = TrainingCheckpoint(directory, steps_per_epoch=2, epochs=1)
    ...     _ = model.fit(x, y, batch_size=4, callbacks=[checkpoint], verbose=0)
    ...     resumed = TrainingCheckpoint(directory, steps_per_epoch=2, epochs=1)
    ...     resumed.restore(model), resumed.step, resumed.finished
    (True, 2, True)
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        steps_per_epoch: int,
        epochs: int,
        save_steps: int = 1000,
        callbacks: Sequence[Callback] = (),
        batches: Batches | None = None,
        on_mismatch: OnMismatch = "error",
    ) -> None:
        super().__init__(PathLock(directory, "training"))
        check_positive_integer("steps_per_epoch", steps_per_epoch)
        check_positive_integer("epochs", epochs)
        check_positive_integer("save_steps", save_steps)
        if on_mismatch not in ("error", "warn"):
            raise ValueError(
                "Expected on_mismatch to be one of ('error', 'warn'). Received: "
                f"on_mismatch={on_mismatch!r}."
            )
        self.directory = Path(directory)
        self.batches = batches
        self.on_mismatch: OnMismatch = on_mismatch
        self.steps_per_epoch = steps_per_epoch
        self.epochs = epochs
        self.save_steps = save_steps
        self.callbacks = [callback for callback in callbacks if has_state(callback)]
        self.restored: RestoredState | None = None
        self.first_batch = 0
        self.epoch_begin: EpochBeginState | None = None
        self.step = 0
        self.stopped = False
        self.history: dict[str, list[float]] = {}
        self.data: Sequence[object] = []
        self._all_callbacks = list(callbacks)
        self._unsaved = UnsavedAttributes(())
        self._untracked: list[keras.Variable] = []
        self._trained_layers: TrainedLayers | None = None
        self._saved_step = 0
        self._newest_is_damaged = False
        self._fingerprint: TensorDict | None = None
        self._warned = False

    @property
    def finished(self) -> bool:
        return self.stopped or self.step >= self.epochs * self.steps_per_epoch

    async_safe = True
    """Allows Keras to call `on_train_batch_end` without waiting for the device."""

    def set_model(self, model: keras.Model) -> None:
        if model is not self._model:
            # The same list in a resumed training: callbacks may create further variables.
            self._untracked = untracked_variables(model, self._all_callbacks)
        super().set_model(model)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        params: Any = self.params or {}
        self._reject_more_batches(params.get("steps") or 0)  # `None` if Keras does not know it
        super().on_train_begin(logs)
        self._current_fingerprint()  # training may change attributes of the loss
        self._warned = False
        objects = [*self._all_callbacks, *objects_of_user(self.model)]
        saved = [*self._saved_variables, *self.model.metrics_variables]
        self._unsaved = UnsavedAttributes(objects, saved)
        self._trained_layers = TrainedLayers(self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._first_step = self.step - self.first_batch
        self._ended_batches = []
        self.restored = None

    # Save here and not in on_train_batch_end, because Keras may delay that call to a different
    # thread.
    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.step = self._first_step + batch
        if self.step - self._saved_step >= self.save_steps:
            self.save()

    # Count the batches here, because Keras also calls on_train_batch_begin after the last batch.
    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._ended_batches.append(batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        model = self.model
        end = (epoch + 1) * self.steps_per_epoch
        step = self._first_step + max(self._ended_batches, default=-1) + 1
        self._reject_more_batches(step + self.steps_per_epoch - end)
        if step < end:
            if model.stop_training:
                return  # Stopped within an epoch, e.g. by TerminateOnNaN: do not save.
            raise ValueError(
                f"Expected {self.steps_per_epoch} batches in an epoch. Received: "
                f"{max(self._ended_batches, default=-1) + 1} batches. Use a dataset that repeats, "
                "or a smaller steps_per_epoch."
            )
        self.step = end
        self.stopped = model.stop_training
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        self.save()

    def epoch_begin_state(self) -> EpochBeginState:
        """Returns what callbacks see when an epoch begins, for a training that resumes in it.

        `fit` stores the result in `epoch_begin` before `on_epoch_begin` of the callbacks.
        """
        return {
            "scalars": epoch_begin_scalars(self._saved_variables),
            "callbacks": [get_state(callback) for callback in self.callbacks],
            "random": get_random_state(),
        }

    def _reject_more_batches(self, num_batches: int) -> None:
        if num_batches > self.steps_per_epoch:
            raise ValueError(
                f"Expected {self.steps_per_epoch} batches in an epoch, the steps_per_epoch of "
                f"TrainingCheckpoint. Received: {num_batches} batches. Pass the same "
                "steps_per_epoch to both TrainingCheckpoint and model.fit."
            )

    def save(self) -> None:
        """Saves the state, unless a variable is NaN or infinite."""
        problem = self._finite_weights.problem(self.model)
        if problem is not None:
            if not self._warned:
                self._warned = True
                warn_of_nonfinite_weights(
                    problem,
                    f"at step {self.step}. From now on, no state is saved. The last saved state, "
                    f"of step {self._saved_step}, stays in {str(self.directory)!r}",
                )
            return
        metrics = None
        if self.step % self.steps_per_epoch:
            # All workers read the metrics, because TensorFlow sums them over the workers.
            metrics = list(map(keras.ops.convert_to_numpy, self.model.metrics_variables))
        if not is_chief(self.model):
            self._saved_step = self.step
            return
        facts: SavedFacts = {
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "epochs": self.epochs,
            "stopped": self.stopped,
            "history": self.history,
            "fingerprint": self._current_fingerprint(),
            "callback_keys": [state_key(callback) for callback in self.callbacks],
            "callbacks": [get_state(callback) for callback in self.callbacks],
            "data": [data.get_state() for data in self._data_with_state],
            "unsaved_attributes": self._unsaved.names(),
            "trained_layers": self._trained_layers.changes() if self._trained_layers else [],
            "random": get_random_state(),
            "metrics": metrics,
            "epoch_begin": None if metrics is None else self.epoch_begin,
        }
        arrays = [keras.ops.convert_to_numpy(variable) for variable in self._saved_variables]
        newest, previous = self._paths()
        if newest.exists() and not self._newest_is_damaged:
            os.replace(newest, previous)
        write_checkpoint(newest, arrays, dict(facts), like=previous)
        self._newest_is_damaged = False
        self._saved_step = self.step

    def restore(self, model: keras.Model) -> bool:
        """Restores the last saved state of the model, its optimizer and the callbacks.

        If the newest file is damaged, the method warns and reads the previous file.

        Args:
            model: Built and compiled `keras.Model`.

        Returns:
            Bool, whether a saved state was found.

        Raises:
            ValueError: If all files are damaged, or the model, optimizer, loss or data differ from
                the saved state. With `on_mismatch="warn"`, only the shapes of the variables must
                match.
            RuntimeError: If the workers that train the model find different states.
        """
        self.set_model(model)
        restored = self._restore()
        steps = gather_from_workers(model, self.step if restored else -1)
        if len(set(steps)) > 1:
            raise RuntimeError(
                "Expected the same saved state in all workers. Received: "
                f"directory={str(self.directory)!r}, whose saved state is of step {steps} in the "
                f"workers {list(range(len(steps)))} (-1: no state). Use a directory that all "
                "machines share."
            )
        return restored

    def _restore(self) -> bool:
        # If a save was interrupted, only the previous file may exist.
        paths = [path for path in self._paths() if path.exists()]
        for path in paths:
            try:
                arrays, facts = read_checkpoint(path)
                facts = cast(SavedFacts, facts)
            except ValueError as error:
                warnings.warn(f"{error} Trying an older one.", stacklevel=3)
            else:
                self._set_state(path, arrays, facts)
                self._newest_is_damaged = path != paths[0]
                return True
        if paths:
            raise ValueError(
                f"Expected a readable checkpoint. Received: directory={str(self.directory)!r}, in "
                "which all checkpoints are damaged. Delete the checkpoints to start again."
            )
        return False

    def _set_state(self, path: Path, arrays: list[np.ndarray], facts: SavedFacts) -> None:
        build_optimizer(self.model)
        variables = self._saved_variables
        fingerprint = self._current_fingerprint()
        check_fingerprint(path, facts, fingerprint, self.steps_per_epoch, self.on_mismatch)
        check_variables(path, variables, arrays)
        self.step = facts["step"]
        if facts["steps_per_epoch"] != self.steps_per_epoch:
            # Continue after the last finished epoch.
            self.step = self.step // facts["steps_per_epoch"] * self.steps_per_epoch
        reject_overwritten_averages(self.callbacks, facts, self.epochs)
        is_within_epoch = self.step % self.steps_per_epoch != 0
        self.restored = RestoredState(
            self.model, self.callbacks, variables, arrays, facts, is_within_epoch
        )
        self.restored.apply()
        for data, state in zip(self._data_with_state, facts.get("data", ()), strict=False):
            data.set_state(state)
        objects = [*self._all_callbacks, *objects_of_user(self.model)]
        check_completeness(path, facts, objects, self.epochs)
        self._saved_step = self.step
        self.stopped = facts["stopped"]
        self.history = facts["history"]

    @property
    def _saved_variables(self) -> list[keras.Variable]:
        return saved_variables(self.model, self._untracked)

    @property
    def _data_with_state(self) -> list[Any]:
        return [data for data in self.data if hasattr(data, "get_state")]

    def _current_fingerprint(self) -> TensorDict:
        if self._fingerprint is None:
            self._fingerprint = training_fingerprint(self.model, self.batches)
        return self._fingerprint

    def _paths(self) -> tuple[Path, Path]:
        return self.directory / "training.npz", self.directory / "training-previous.npz"
