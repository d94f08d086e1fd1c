import contextlib
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from os import PathLike
from typing import Any

import keras

from keras_attn._backend.private_names import build_symbolically
from keras_attn._backend.workers import explain_lost_workers, is_chief, num_workers
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.training.build_from_data import build_from_data
from keras_attn.training.callback_states import callbacks_of_worker, reject_callbacks
from keras_attn.training.finite_weights import FiniteWeights, warn_of_nonfinite_weights
from keras_attn.training.replica_steps import replica_steps
from keras_attn.training.resumed_callbacks import ResumedCallbacks
from keras_attn.training.strategy import refuse_gradient_accumulation
from keras_attn.training.training_checkpoint import TrainingCheckpoint


def fit(
    model: keras.Model,
    batches: Any,
    epochs: int,
    directory: str | PathLike[str] | None = None,
    save_steps: int = 1000,
    validation_batches: Any = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
    on_mismatch: str = "error",
) -> keras.callbacks.History:
    """Trains a model like `model.fit`, and resumes interrupted trainings.

    With a `directory`, `fit` saves the state during training (see `TrainingCheckpoint`). After an
    interruption, call `fit` again with the same arguments: it restores the last saved state,
    finishes the interrupted epoch and runs the remaining epochs. On a CPU, the final weights equal
    those of an uninterrupted training; on a GPU, this also requires deterministic operations (in
    TensorFlow, `tf.config.experimental.enable_op_determinism()`). If the training has ended,
    another call restores the weights without training, unless you increase `epochs`. If a callback
    stops the training at the end of an epoch, the training has ended, too, and `fit` does not
    continue it even if you increase `epochs`. If a callback stops the training within an epoch, the
    next call continues from the last saved state.

    The state contains the learning rate of the optimizer, so a new numeric rate in `compile` has no
    effect. To change the rate, use a schedule or the callback
    `keras.callbacks.LearningRateScheduler`.

    Callbacks see one training: `on_train_begin` and `on_train_end` are called once in each call of
    `fit`, the numbers of the batches continue, and the logs cover all steps of the interrupted
    epoch. The callbacks of Keras and of this package continue with their saved state: for example
    `EarlyStopping` with its counter and its best weights, and `CSVLogger` with its rows. The state
    of your own callback is saved if it has the methods `get_state()`, which returns values that
    JSON can represent and NumPy arrays, and `set_state(state)`. `fit` calls `set_state` again after
    `on_train_begin` and `on_epoch_begin`. If attributes of a callback without these methods changed
    before the interruption, `fit` warns when it resumes. A state belongs to a callback of the same
    class with the same `monitor` and file name; the state of other callbacks begins anew.

    The state contains the global random generators of Python, NumPy, Keras and PyTorch. Random
    operations of TensorFlow without a seed, such as `tf.random.normal`, cannot be restored. Use
    `keras.random`. If batches are read in advance, their random numbers must depend only on the
    number of the step.

    The state also contains a fingerprint of the training: the configuration of the model, the
    optimizer and its settings, the loss and its weights, the number of steps per epoch, checksums
    of two batches, and the settings that change a step: the backend, `floatx`, `epsilon`,
    `jit_compile`, `run_eagerly`, the dtype policies, and the methods of your layers and models. The
    fingerprint describes functions by their code and the values that they use. If it has changed
    when a training resumes, `fit` raises an error that names the differences. You may change the
    number of epochs, the directory, the callbacks, the metrics and a numeric learning rate.

    If several workers train the model (see `strategy`), every worker must call `fit` with the same
    arguments. Worker 0 writes the files and logs, and shows the progress. The other workers read
    the files, so all machines must share the directory. If a worker fails, `fit` raises an error in
    the other workers. Start all workers again to resume from the last saved state.

    Only one training at a time can use the directory and the paths of callbacks, so `fit` locks
    them. The lock file names the process that holds the lock. The operating system releases the
    lock when this process ends for any reason.

    If variables of the model or the optimizer become NaN or infinite, `fit` warns once and does not
    save the state.

    Args:
        model: Compiled `keras.Model`, see `compile_for_training`. With a `directory`, a model that
            is not built is built from the shapes of the first batch.
        batches: Object with `steps_per_epoch`, `dataset(start_step)` (on TensorFlow: an infinite
            `tf.data.Dataset`) and `stream(start_step)` (on other backends: an infinite iterator),
            such as `keras_attn.text.LengthBucketedBatches`. The content of a batch must depend only
            on the number of the step. On several devices (a distribution strategy of TensorFlow, or
            `keras.distribution.DataParallel` on JAX), the devices divide the rows of each batch. If
            the number of rows is not a multiple of the number of devices, the step is equal to that
            of one device. On TensorFlow, this is not possible for each model, see `Raises`.
        epochs: Positive int, total number of epochs, including those of earlier calls.
        directory: Path of the directory for the saved state. Defaults to `None`: the state is not
            saved.
        save_steps: Positive int, number of steps between two saves. The state is also saved at the
            end of each epoch. Defaults to `1000`.
        validation_batches: Object with the same methods as `batches`. The batches of its first
            epoch are the validation set. Defaults to `None`: no validation.
        callbacks: List of callbacks. Defaults to `()`.
        verbose: As in `model.fit`. Defaults to `"auto"`.
        on_mismatch: String, `"error"` or `"warn"`, what to do if the fingerprint of the saved state
            differs. With `"warn"`, the training continues if the variables have the same shapes. If
            the number of steps per epoch has changed, it continues after the last finished epoch.
            Defaults to `"error"`.

    Returns:
        `keras.callbacks.History` of all epochs, including those of earlier calls.

    Raises:
        ValueError: If `epochs` is not a positive integer; if `batches` or `callbacks` have the
            wrong type; if the model is not compiled; if `batches.steps_per_epoch` is not a multiple
            of the model's `steps_per_execution`; if the optimizer accumulates gradients and a
            distribution strategy is used; or if the fingerprint or the shapes of the saved state
            differ. With a `directory`, `fit` also rejects `keras.callbacks.BackupAndRestore`, which
            replaces the restored state by an older one, and `keras.callbacks.OrbaxCheckpoint`. It
            also rejects a model that is not built and needs the values of a batch to be built. With
            several workers, it rejects `keras.callbacks.ModelCheckpoint` (use `BestCheckpoint`).
            Under a strategy of TensorFlow, `fit` rejects a batch whose number of rows is not a
            multiple of the number of replicas if the model has a custom `train_step`,
            `compute_loss` or `compute_metrics`, `BatchNormalization`, losses or metrics that
            combine the rows of a batch, `add_loss` or activity regularizers in layers, or a Keras
            optimizer that clips gradients.
        OSError: If the `directory` cannot be written, or is a file.
        RuntimeError: If another training uses the `directory` or the path of a callback, a worker
            failed, or the workers find different saved states.

    Example:

    ```python
    with strategy("auto").scope():
        model = compile_for_training(build_model())
    fit(model, batches, epochs=20, directory="run", validation_batches=validation_batches)
    ```
    """
    check_positive_integer("epochs", epochs)
    if not getattr(model, "compiled", False):
        raise ValueError(
            f"Expected a compiled model. Received: model={model}. Compile it with "
            "keras_attn.training.compile_for_training(model)."
        )
    _check_batches("batches", batches)
    if validation_batches is not None:
        _check_batches("validation_batches", validation_batches)
    callbacks = callbacks_of_worker(
        _list_of_callbacks(callbacks), num_workers(model), is_chief(model)
    )
    steps_per_epoch = batches.steps_per_epoch
    if steps_per_epoch % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide steps_per_epoch. Received: "
            f"steps_per_execution={model.steps_per_execution}, steps_per_epoch={steps_per_epoch}. "
            "Compile the model with a different steps_per_execution."
        )
    refuse_gradient_accumulation(model)
    if directory is not None:
        build_from_data(model, batches)
    history = next(filter(_is_history, reversed(callbacks)), None)
    all_callbacks: list[Any] = [*callbacks]
    if history is None:
        history = keras.callbacks.History()
        all_callbacks.append(history)
    if directory is None:
        checkpoint = None
        all_callbacks.append(_WarnOfNonfiniteWeights(FiniteWeights(model)))
    else:
        reject_callbacks(all_callbacks)
        checkpoint = TrainingCheckpoint(
            directory, steps_per_epoch, epochs, save_steps, all_callbacks, batches, on_mismatch
        )
        all_callbacks.append(checkpoint)
    if not is_chief(model):
        verbose = 0
    with ExitStack() as locks:
        for callback in all_callbacks:
            if is_chief(model) and isinstance(getattr(callback, "lock", None), PathLock):
                locks.enter_context(callback.lock)
        running = ResumedCallbacks(
            all_callbacks, checkpoint, model, epochs, steps_per_epoch, verbose
        )
        step = 0
        if checkpoint is not None and checkpoint.restore(model):
            for each in filter(_is_history, all_callbacks):
                each.history = {name: list(values) for name, values in checkpoint.history.items()}
            step = checkpoint.step
        with explain_lost_workers(model):
            if checkpoint is not None and checkpoint.finished:
                logs = {name: values[-1] for name, values in checkpoint.history.items()}
                _end_again(model, running, logs)
                return history
            with replica_steps(model, batches, validation_batches) as (padded, validation):
                _train(model, padded, epochs, step, validation, running)
    return history


def _check_batches(name, batches):
    """Raises a `ValueError` unless an object has the attributes that `fit` needs."""
    method = "dataset" if keras.backend.backend() == "tensorflow" else "stream"
    steps = getattr(batches, "steps_per_epoch", None)
    if steps is None or not callable(getattr(batches, method, None)):
        raise ValueError(
            f"Expected {name} with the attribute steps_per_epoch and the method "
            f"{method}(start_step), such as keras_attn.text.LengthBucketedBatches. Received: "
            f"{name} of type {type(batches).__name__}. Write a class with both members, or "
            "use model.fit, which cannot resume."
        )
    check_positive_integer(f"{name}.steps_per_epoch", steps)


def _list_of_callbacks(callbacks):
    """Returns the callbacks as a list. `None`, the default of `model.fit`, is an empty list."""
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, (list, tuple)) or not all(
        isinstance(each, keras.callbacks.Callback) for each in callbacks
    ):
        raise ValueError(
            "Expected callbacks to be a list of keras.callbacks.Callback instances. Received: "
            f"callbacks={callbacks!r}. Pass [callback]."
        )
    return list(callbacks)


def _is_history(callback):
    return isinstance(callback, keras.callbacks.History)


def _train(model, batches, epochs, step, validation_batches, callbacks):
    """Calls `model.fit` from a step to the end of the last epoch."""
    steps_per_epoch = batches.steps_per_epoch
    validation = {}
    if validation_batches is not None:
        validation["validation_data"] = _validation_data(validation_batches)
        validation["validation_steps"] = validation_batches.steps_per_epoch
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
        if offset and hasattr(data, "element_spec"):
            _build_metrics(model, data)
        callbacks.prepare_call(offset, is_last=end == epochs)
        model.fit(
            data,
            steps_per_epoch=steps_per_epoch - offset,
            initial_epoch=epoch,
            epochs=end,
            shuffle=False,
            callbacks=callbacks,
            **validation,
        )
        if model.stop_training:
            return
        epoch, offset = end, 0


def _build_metrics(model, dataset):
    """Creates the variables of the metrics, whose values are restored before the first step.

    On other backends and under a strategy, Keras creates them itself. A model whose `call` does not
    take the inputs of a batch, such as a GAN, has its own metrics.
    """
    for batch in dataset.take(1):
        with contextlib.suppress(Exception):
            build_symbolically(model, batch)


def _end_again(model, callbacks, logs):
    """Repeats the end of a finished training, at which callbacks may change the weights."""
    model.stop_training = False
    callbacks.on_train_begin()
    model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.on_train_end(logs)


def _training_data(batches, start_step):
    if keras.backend.backend() != "tensorflow":
        # Keras accepts generators, but not other iterators.
        return (batch for batch in batches.stream(start_step))
    return batches.dataset(start_step)


def _validation_data(batches):
    if keras.backend.backend() != "tensorflow":
        return _OneEpoch(batches)
    import tensorflow as tf

    steps = batches.steps_per_epoch
    # If the cardinality is unknown, Keras reads beyond the last step.
    return batches.dataset(0).take(steps).apply(tf.data.experimental.assert_cardinality(steps))


class _OneEpoch(keras.utils.PyDataset):
    """Dataset of the batches of the first epoch, which Keras can read repeatedly."""

    def __init__(self, batches: Any) -> None:
        super().__init__()
        self._batches = list(islice(batches.stream(0), batches.steps_per_epoch))

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class _WarnOfNonfiniteWeights(keras.callbacks.Callback):
    """Warns once if a variable is NaN or infinite at the end of an epoch."""

    def __init__(self, finite_weights: Any) -> None:
        super().__init__()
        self.finite_weights = finite_weights
        self.warned = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        problem = None if self.warned else self.finite_weights.problem(self.model)
        if problem is not None:
            self.warned = True
            warn_of_nonfinite_weights(problem, f"in epoch {epoch + 1}")
