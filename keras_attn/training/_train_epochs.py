"""Trains the remaining epochs of a training on batches that can be read from any step."""

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any

import keras
from keras.utils import PyDataset

from keras_attn._backend.data_adapters import StreamAdapter
from keras_attn._backend.private_names import build_symbolically
from keras_attn.training._array_batches import ArrayBatches
from keras_attn.training._build_from_data import only_has_parts
from keras_attn.training._callback_states import has_state
from keras_attn.training._dataset_batches import Batches, DatasetBatches
from keras_attn.training._replica_steps import replica_steps
from keras_attn.training._resumed_callbacks import ResumedCallbacks
from keras_attn.training._step_batches import StepBatches
from keras_attn.training._untracked_state import is_of_library

if TYPE_CHECKING:
    import tensorflow as tf


def train_epochs(
    model: keras.Model,
    batches: Batches,
    validation_batches: Batches | None,
    validation: dict[str, Any],
    callbacks: ResumedCallbacks,
    step: int,
) -> None:
    """Restores the saved state, if there is one, and trains the remaining epochs.

    Args:
        model: Compiled `keras.Model`.
        batches: See `fit`.
        validation_batches: Object like `batches`, or `None` if Keras reads the validation data.
        validation: Dict, arguments of `model.fit` for the validation.
        callbacks: `ResumedCallbacks`.
        step: Int >= 0, first step without a saved state.
    """
    checkpoint = callbacks.checkpoint
    if checkpoint is not None and checkpoint.restore(model):
        for callback in callbacks.callbacks:
            if isinstance(callback, keras.callbacks.History):
                logs = checkpoint.history.items()
                callback.history = {name: list(values) for name, values in logs}
        step = checkpoint.step
    if checkpoint is not None and checkpoint.finished:
        last_logs = {name: values[-1] for name, values in checkpoint.history.items()}
        _end_again(model, callbacks, last_logs)
        return
    with replica_steps(model, batches, validation_batches) as (padded, padded_validation):
        if padded_validation is not None:
            steps = validation.get("validation_steps")
            validation["validation_data"] = _validation_data(padded_validation, steps)
        _train(model, padded, validation, callbacks, step)


def _train(
    model: keras.Model,
    batches: Batches,
    validation: dict[str, Any],
    callbacks: ResumedCallbacks,
    step: int,
) -> None:
    """Calls `model.fit` from a step to the end of the last epoch."""
    epochs, steps_per_epoch = callbacks.epochs, batches.steps_per_epoch
    # Keras gives all epochs of a call the same number of steps. The rest of an interrupted epoch
    # therefore needs its own call.
    epoch, offset = divmod(step, steps_per_epoch)
    if offset % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide the number of finished steps of the epoch. "
            f"Received: steps_per_execution={model.steps_per_execution}, and a saved state after "
            f"{offset} steps of an epoch. Resume with the steps_per_execution of the saved state."
        )
    ends = [epochs] if offset == 0 or epoch + 1 == epochs else [epoch + 1, epochs]
    for end in ends:
        data = _training_data(batches, epoch * steps_per_epoch + offset)
        is_dataset = isinstance(data, PyDataset)
        needs_metrics = offset and not only_has_parts(model)
        if needs_metrics and is_dataset:
            build_symbolically(model, data[0])
        elif needs_metrics and hasattr(data, "element_spec"):
            _build_metrics(model, data)
        num_steps = steps_per_epoch - offset
        has_epochs = isinstance(batches, ArrayBatches) or (
            is_dataset and data.num_batches is not None
        )
        callbacks.prepare_call(offset, is_last=end == epochs, has_epochs=has_epochs)
        model.fit(
            data,
            # Keras reads whole epochs of a PyDataset only between its two methods.
            steps_per_epoch=None if is_dataset and data.num_batches == num_steps else num_steps,
            initial_epoch=epoch,
            epochs=end,
            shuffle=False,
            callbacks=callbacks,
            **validation,
        )
        if model.stop_training:
            return
        epoch, offset = end, 0


def _build_metrics(model: keras.Model, dataset: "tf.data.Dataset") -> None:
    """Creates the variables of the metrics, whose values are restored before the first step.

    On other backends and under a strategy, Keras creates them itself. A model whose `call` does not
    take the inputs of a batch, such as a GAN, has its own metrics.
    """
    for batch in dataset.take(1):
        with contextlib.suppress(Exception):
            build_symbolically(model, batch)


def _end_again(model: keras.Model, callbacks: ResumedCallbacks, logs: dict[str, float]) -> None:
    """Repeats the end of a finished training, at which callbacks may change the weights.

    It calls only callbacks that restore their state or belong to a library.
    """
    model.stop_training = False
    callbacks.callbacks = [
        callback
        for callback in callbacks.callbacks
        if has_state(callback) or is_of_library(type(callback))
    ]
    callbacks.on_train_begin()
    model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.on_train_end(logs)


def _training_data(batches: Batches, start_step: int) -> Any:
    """Returns the batches from a step, in a form that `model.fit` reads."""
    if isinstance(batches, DatasetBatches):
        return batches.reader(start_step)
    if keras.backend.backend() == "tensorflow":
        return batches.dataset(start_step)
    if isinstance(batches, ArrayBatches):
        return StreamAdapter(lambda: batches.stream(start_step), batches.loader_seeds)
    # Keras accepts generators, but not other iterators.
    return (batch for batch in batches.stream(start_step))


def _validation_data(batches: Batches, steps: int | None) -> "PyDataset | tf.data.Dataset":
    """Returns the validation batches, in a form that `model.fit` reads repeatedly."""
    if isinstance(batches, DatasetBatches):
        return batches.validation_reader()
    if keras.backend.backend() != "tensorflow":
        return _OneEpoch(batches, steps)
    import tensorflow as tf

    # If the cardinality is unknown, Keras reads beyond the last step.
    return batches.dataset(0).take(steps).apply(tf.data.experimental.assert_cardinality(steps))


class _OneEpoch(PyDataset):
    """Dataset of the batches of the first epoch."""

    def __init__(self, batches: StepBatches, steps: int | None) -> None:
        super().__init__()
        self._batches = list(islice(batches.stream(0), steps))

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> object:
        return self._batches[index]
