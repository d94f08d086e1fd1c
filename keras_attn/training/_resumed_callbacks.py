from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras.callbacks import Callback

from keras_attn._backend.random_state import get_random_state, set_random_state
from keras_attn._types import TensorDict, Verbosity
from keras_attn.training._callback_states import append_to_csv_files
from keras_attn.training._training_checkpoint import TrainingCheckpoint


class ResumedCallbacks(keras.callbacks.CallbackList):
    """Callbacks for which several calls of `model.fit` are one training.

    A training that resumes within an epoch needs one call of `model.fit` for the rest of this epoch
    and one call for the remaining epochs. `on_train_begin` and `on_train_end` are called once, and
    the numbers of the batches continue from the interruption.

    Args:
        callbacks: List of callbacks.
        checkpoint: The last callback if it is a `TrainingCheckpoint`, otherwise `None`.
        model: `keras.Model`.
        epochs: Positive int, total number of epochs.
        steps: Positive int, number of steps per epoch.
        verbose: As in `model.fit`.
    """

    model: Any

    def __init__(
        self,
        callbacks: Sequence[Callback],
        checkpoint: TrainingCheckpoint | None,
        model: keras.Model,
        epochs: int,
        steps: int,
        verbose: Verbosity,
    ) -> None:
        super().__init__(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            model=model,
            verbose=verbose,
            epochs=epochs,
            steps=steps,
        )
        self.checkpoint = checkpoint
        self.epochs = epochs
        self._offset = 0
        self._is_last_call = self._has_epochs = True
        self._has_begun = False
        # Restored where Keras uses random numbers for its own purposes, as for a new iterator.
        self._random: TensorDict | None = None
        self._weights: list[np.ndarray] = []

    def prepare_call(self, offset: int, is_last: bool, has_epochs: bool) -> None:
        """Is called before each call of `model.fit`.

        Args:
            offset: Int, number of batches of the first epoch that are already trained.
            is_last: Bool, whether the last epoch of the training is part of the call.
            has_epochs: Bool, whether Keras creates a new iterator over the data for each epoch.
        """
        self._offset = offset
        self._is_last_call = is_last
        self._has_epochs = has_epochs

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self._has_begun:
            for variable, array in zip(self._trained(), self._weights, strict=True):
                variable.assign(array)
            if self._random is not None:
                set_random_state(self._random)
            return
        self._has_begun = True
        checkpoint = self.checkpoint
        restored = None if checkpoint is None else checkpoint.restored
        if checkpoint is None or restored is None:
            super().on_train_begin(logs)
            return
        with append_to_csv_files(restored.callback_states()):
            super().on_train_begin(logs)
        restored.apply_after_train_begin()
        for callback in self.callbacks:
            if isinstance(callback, keras.callbacks.History):
                callback.epoch = list(range(checkpoint.step // self.params["steps"]))

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        checkpoint = self.checkpoint
        restored = None if checkpoint is None else checkpoint.restored
        if checkpoint is not None:
            checkpoint.first_batch = self._offset
            if restored is not None and restored.is_within_epoch:
                checkpoint.epoch_begin = restored.facts.get("epoch_begin")
            else:
                checkpoint.epoch_begin = checkpoint.epoch_begin_state()
        super().on_epoch_begin(epoch, logs)
        if restored is not None:
            restored.apply_after_epoch_begin()
        continues = restored is not None or self._random is not None
        if continues and (self._offset or not self._has_epochs):
            self._random = get_random_state()
        else:
            self._random = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self._random is not None:
            set_random_state(self._random)
            self._random = None
        if self.checkpoint is not None:
            # Before the callbacks change their state, because a training that resumes calls them.
            self.checkpoint.on_train_batch_begin(batch + self._offset)
        super().on_train_batch_begin(batch + self._offset, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        super().on_train_batch_end(batch + self._offset, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if not self._is_last_call:
            # At the end of a call, an optimizer with use_ema=True replaces the weights.
            self._weights = list(map(keras.ops.convert_to_numpy, self._trained()))

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        if not self._is_last_call and not self.model.stop_training:
            self._random = get_random_state()
            return
        super().on_train_end(logs)
        for callback in self.callbacks:
            if isinstance(callback, keras.callbacks.CSVLogger):
                callback.append_header = True  # as at first, if it is used for another training

    def _trained(self) -> list[keras.Variable]:
        return self.model.trainable_variables
