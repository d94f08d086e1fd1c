import contextlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import Any

import keras
from keras.callbacks import Callback
from keras.utils import PyDataset

from keras_attn._backend.replicas import num_data_replicas
from keras_attn._backend.workers import explain_lost_workers, is_chief, num_workers
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import Verbosity
from keras_attn.training._build_from_data import build_from_data
from keras_attn.training._callback_states import callbacks_of_worker, reject_callbacks
from keras_attn.training._finite_weights import FiniteWeights, warn_of_nonfinite_weights
from keras_attn.training._locked_callback import LockedCallback
from keras_attn.training._make_strategy import reject_gradient_accumulation
from keras_attn.training._nested_arrays import is_dense, split_rows
from keras_attn.training._restored_state import reject_unbuilt_optimizers
from keras_attn.training._resumed_callbacks import ResumedCallbacks
from keras_attn.training._step_batches import OnMismatch, Shuffle
from keras_attn.training._train_epochs import train_epochs
from keras_attn.training._training_checkpoint import TrainingCheckpoint
from keras_attn.training._training_data import (
    check_data,
    is_step_object,
    resumable_data,
    validation_arguments,
)


def fit(
    model: keras.Model,
    x: object = None,
    y: object = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Verbosity = "auto",
    callbacks: Sequence[Callback] | None = None,
    validation_split: float = 0.0,
    validation_data: object = None,
    shuffle: Shuffle = True,
    class_weight: dict[int, float] | None = None,
    sample_weight: object = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: int | Sequence[int] = 1,
    *,
    directory: str | PathLike[str] | None = None,
    save_steps: int = 1000,
    on_mismatch: OnMismatch = "error",
) -> keras.callbacks.History:
    """Trains a model like `model.fit`, and resumes interrupted trainings.

    The arguments before `directory` have the names, order and meaning of `model.fit`. Without a
    directory, `fit` takes all data that `model.fit` takes, and also objects whose batches depend on
    the step number, such as `keras_attn.text.LengthBucketedBatches`.

    With a directory, the data must be readable from any step:

    - Arrays, tensors and pandas objects, also nested ones. The row order in an epoch depends on the
      epoch number and a seed in the saved state, which `fit` draws from NumPy's global random
      generator.
    - A `keras.utils.PyDataset`. When the training resumes, `fit` repeats the calls of
      `on_epoch_begin` and `on_epoch_end`. Between two calls, a batch must depend only on its index.
      The two methods may use the global random generators of NumPy and Python, which `fit` seeds
      there. Create the dataset with the same arguments and seeds before each call of `fit`.
    - Objects whose batches depend on the step number.

    With a `directory`, `fit` saves the variables of the model, the optimizer and the metrics, and
    the states of callbacks and data, every `save_steps` steps and after each epoch. After an
    interruption, call `fit` again with the same arguments: it restores the last saved state,
    finishes the interrupted epoch and runs the remaining epochs. On a CPU, the final weights equal
    those of an uninterrupted training; on a GPU, this also requires deterministic operations (in
    TensorFlow, `tf.config.experimental.enable_op_determinism()`). After a finished training,
    another call restores the weights without training, unless you increase `epochs`. If a callback
    stops the training at the end of an epoch, it is finished even if you increase `epochs`. If a
    callback stops it within an epoch, the next call continues from the last saved state.

    The state contains the learning rate, so a new numeric rate in `compile` has no effect. To
    change the rate, use a schedule or `keras.callbacks.LearningRateScheduler`.

    Callbacks see one training: each call of `fit` calls `on_train_begin` and `on_train_end` once,
    the batch numbers continue, and the logs cover all steps of the interrupted epoch. Callbacks
    from Keras and this package continue with their saved state: for example `EarlyStopping` with
    its counter and its best weights, and `CSVLogger` with its rows. The state of your own callback
    is saved if it has the methods `get_state()`, which returns NumPy arrays and values that JSON
    can represent, and `set_state(state)`. `fit` calls `set_state` again after `on_train_begin` and
    `on_epoch_begin`. If attributes of a callback without these methods changed before the
    interruption, `fit` warns when it resumes. A state belongs to a callback of the same class with
    the same `monitor` and file name. All other callbacks begin anew.

    The state contains the global random generators of Python, NumPy, Keras and PyTorch. Random
    TensorFlow operations without a seed, such as `tf.random.normal`, cannot be restored. Use
    `keras.random`. If batches are read in advance, their random numbers must depend only on the
    step number.

    The state also contains a fingerprint: the configuration of the model, the optimizer and its
    settings, the loss and its weights, the number of steps per epoch, data checksums, and the
    settings that change a step: the backend, `floatx`, `epsilon`, `jit_compile`, `run_eagerly` and
    the dtype policies. If it has changed when a training resumes, `fit` raises an error that names
    the differences. The fingerprint contains only the names of your functions and classes, so `fit`
    does not notice that you edited their code. You may change the number of epochs, the directory,
    the callbacks, the metrics and a numeric learning rate.

    If several workers train the model (see `make_strategy`), every worker must call `fit` with the
    same arguments. Worker 0 writes the files and logs, and shows the progress. The other workers
    read the files, so all machines must share the directory. If a worker fails, `fit` raises an
    error in the other workers. Start all workers again to resume from the last saved state.

    Only one training at a time can use the directory and the callback paths, so `fit` locks them.
    The lock file names the process that holds the lock. The operating system releases it when this
    process ends for any reason.

    If variables of the model or the optimizer become NaN or infinite, `fit` warns once and does not
    save the state.

    Args:
        model: Compiled `keras.Model`, see `compile_for_training`. With a `directory`, an unbuilt
            model is built from the shapes of the first batch.
        x: Model inputs: arrays, a `keras.utils.PyDataset`, an object with `steps_per_epoch`,
            `dataset(start_step)` (on TensorFlow: an infinite `tf.data.Dataset`) and
            `stream(start_step)` (on other backends: an infinite iterator), or without a directory a
            generator, `tf.data.Dataset` or `torch.utils.data.DataLoader`. With a TensorFlow
            distribution strategy, or `keras.distribution.DataParallel` on JAX, the devices divide
            the rows of each batch. If they cannot divide them evenly, the step is equal to that of
            one device. On TensorFlow, this is not possible for each model, see `Raises`.
        y: Labels, if `x` is arrays. Defaults to `None`: `x` returns complete batches, or the model
            needs no labels.
        batch_size: Positive int, number of rows in a batch of arrays. Defaults to `None`: 32, or
            the number of rows divided by `steps_per_epoch`.
        epochs: Positive int, total number of epochs, including those of earlier calls with the same
            directory. Defaults to `1`.
        verbose: As in `model.fit`. Defaults to `"auto"`.
        callbacks: List of callbacks. Defaults to `None`: no callbacks.
        validation_split: Float in [0, 1), share of the last rows of arrays that are used for
            validation. Defaults to `0.0`.
        validation_data: `(x, y)` or `(x, y, sample_weight)`, or one of the objects that `x` may be.
            Of an object with `steps_per_epoch`, the first epoch is read. With a directory, the data
            must return the same batches in each epoch, so it cannot be a generator. Defaults to
            `None`: no validation.
        shuffle: Bool, whether to shuffle the rows of arrays and the batches of a
            `keras.utils.PyDataset` in each epoch; or `"batch"`, which shuffles the rows within each
            batch. Other data are not shuffled. Defaults to `True`.
        class_weight: Dict from classes (ints) to weights (floats) of their rows in the loss.
            Missing classes have the weight 1. Defaults to `None`.
        sample_weight: Array of row weights, or one array for each output. Defaults to `None`.
        initial_epoch: Int >= 0, number of the first epoch. With a directory, it must be 0, because
            the saved state contains the epoch. Defaults to `0`.
        steps_per_epoch: Positive int, number of batches in an epoch. With a directory, it must
            divide the number of batches of arrays, and equal that of a `keras.utils.PyDataset`
            unless it is endless. Defaults to `None`: all batches.
        validation_steps: Positive int, number of batches for each validation. Defaults to `None`:
            all batches.
        validation_batch_size: Positive int. Defaults to `None`: `batch_size`.
        validation_freq: Positive int, number of epochs between two validations; or a list of the
            epochs, counted from 1, that end with a validation. Defaults to `1`.
        directory: Path of the directory for the saved state. Defaults to `None`: the state is not
            saved.
        save_steps: Positive int, number of steps between two saves. The state is also saved at the
            end of each epoch. Defaults to `1000`.
        on_mismatch: String, `"error"` or `"warn"`, what to do if the saved fingerprint differs.
            With `"warn"`, the training continues if the variables have the same shapes. If the
            number of steps per epoch has changed, it continues after the last finished epoch.
            Defaults to `"error"`.

    Returns:
        `keras.callbacks.History` of all epochs, including those of earlier calls.

    Raises:
        ValueError: If an argument has the wrong type or does not fit to the type of `x`; if the
            numbers of rows of arrays differ; if the model is not compiled; if `steps_per_execution`
            does not divide the number of steps per epoch; if the optimizer accumulates gradients
            and a distribution strategy is used; or if the fingerprint or the shapes of the saved
            state differ. With a `directory`, `fit` also rejects data that it cannot read again:
            generators, a `tf.data.Dataset`, a `torch.utils.data.DataLoader`, and a
            `keras.utils.PyDataset` that returns different batches for the same index or is used
            with several replicas. It also rejects `keras.callbacks.BackupAndRestore`, which
            replaces the restored state by an older one, `keras.callbacks.OrbaxCheckpoint`, an
            unbuilt model that needs the values of a batch to be built, and unbuilt optimizers that
            are attributes of the model, as in a GAN (call their `build`). With several workers, it
            rejects `keras.callbacks.ModelCheckpoint` (use `BestCheckpoint`). With a TensorFlow
            strategy, `fit` rejects a batch that the replicas cannot divide evenly if the model has
            a custom `train_step`, `compute_loss` or `compute_metrics`, `BatchNormalization`, losses
            or metrics that combine rows, `add_loss` or activity regularizers in layers, or a Keras
            optimizer that clips gradients.
        OSError: If the `directory` cannot be written, or is a file.
        RuntimeError: If another training uses the `directory` or a callback path, a worker failed,
            or the workers find different saved states.

    Example:

    ```python
    with make_strategy("auto").scope():
        model = compile_for_training(build_model())
    fit(model, batches, epochs=20, directory="run", validation_data=validation_batches)
    ```
    """
    if is_step_object(x) and isinstance(y, int):
        warnings.warn(
            f"Expected fit(model, batches, epochs={y}, directory=...). Received: the number of "
            "epochs as the third argument, and the directory as the fourth. Write their names.",
            DeprecationWarning,
            stacklevel=2,
        )
        former_directory: Any = batch_size
        epochs, directory, y, batch_size = y, former_directory or directory, None, None
    check_positive_integer("epochs", epochs)
    if not getattr(model, "compiled", False):
        raise ValueError(
            f"Expected a compiled model. Received: model={model}. Compile it with "
            "keras_attn.training.compile_for_training(model)."
        )
    check_data(x, y, sample_weight, class_weight, batch_size, steps_per_epoch, validation_split)
    callback_list = callbacks_of_worker(
        _checked_callbacks(callbacks), num_workers(model), is_chief(model)
    )
    if directory is not None and initial_epoch:
        raise ValueError(
            "Expected initial_epoch=0 with a directory, whose saved state contains the epoch. "
            f"Received: initial_epoch={initial_epoch}. Remove initial_epoch."
        )
    batches = None  # Keras reads the data itself, unless they must be resumed or padded
    if directory is not None or num_data_replicas(model) > 1 or is_step_object(x):
        if validation_split and validation_data is None and is_dense((x, y, sample_weight)):
            (x, y, sample_weight), validation_data = split_rows(
                (x, y, sample_weight), validation_split
            )
            validation_split = 0.0
        batches = resumable_data(
            model,
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            class_weight=class_weight,
            steps_per_epoch=steps_per_epoch,
            on_mismatch=on_mismatch,
            must_resume=directory is not None,
        )
    validation_batches, validation = validation_arguments(
        model,
        validation_data,
        batch_size=validation_batch_size or batch_size,
        steps=validation_steps,
        on_mismatch=on_mismatch,
        must_resume=directory is not None,
        is_padded=batches is not None and num_data_replicas(model) > 1,
    )
    validation["validation_freq"] = validation_freq
    if batches is not None and batches.steps_per_epoch % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide steps_per_epoch. Received: "
            f"steps_per_execution={model.steps_per_execution}, steps_per_epoch="
            f"{batches.steps_per_epoch}. Compile the model with a different steps_per_execution."
        )
    reject_gradient_accumulation(model)
    histories = [item for item in callback_list if isinstance(item, keras.callbacks.History)]
    if not histories:
        histories.append(keras.callbacks.History())
        callback_list += histories
    checkpoint = None
    if directory is None or batches is None:
        callback_list.append(_WarnOfNonfiniteWeights(FiniteWeights(model)))
    else:
        build_from_data(model, batches)
        reject_callbacks(callback_list)
        reject_unbuilt_optimizers(model)
        steps = batches.steps_per_epoch
        checkpoint = TrainingCheckpoint(
            directory, steps, epochs, save_steps, callback_list, batches, on_mismatch
        )
        checkpoint.data = [batches, validation_batches]
        callback_list.append(checkpoint)
    if not is_chief(model):
        verbose = 0
    with _locks(model, callback_list), explain_lost_workers(model):
        if batches is not None:
            steps = batches.steps_per_epoch
            resumed = ResumedCallbacks(callback_list, checkpoint, model, epochs, steps, verbose)
            step = initial_epoch * steps
            train_epochs(model, batches, validation_batches, validation, resumed, step)
            return histories[-1]
        fit_by_keras: Any = model.fit  # the annotations in Keras are incomplete
        fit_by_keras(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callback_list,
            validation_split=validation_split,
            # Keras warns about other data, which it does not shuffle.
            shuffle=shuffle if is_dense(x) or isinstance(x, PyDataset) else False,
            class_weight=class_weight,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            **validation,
        )
    return histories[-1]


@contextlib.contextmanager
def _locks(model: keras.Model, callbacks: list[Callback]) -> Iterator[None]:
    """Context in which the chief worker holds the locks of the callbacks."""
    with ExitStack() as locks:
        for callback in callbacks:
            if is_chief(model) and isinstance(callback, LockedCallback):
                locks.enter_context(callback.lock)
        yield


def _checked_callbacks(
    callbacks: Sequence[Callback] | None,
) -> Sequence[Callback]:
    """Returns the callbacks. `None`, the default of `model.fit`, is an empty list."""
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, (list, tuple)) or not all(
        isinstance(callback, Callback) for callback in callbacks
    ):
        raise ValueError(
            "Expected callbacks to be a list of keras.callbacks.Callback instances. Received: "
            f"callbacks={callbacks!r}. Pass [callback]."
        )
    return callbacks


class _WarnOfNonfiniteWeights(Callback):
    """Warns once if a variable is NaN or infinite at the end of an epoch."""

    model: Any

    def __init__(self, finite_weights: FiniteWeights) -> None:
        super().__init__()
        self.finite_weights = finite_weights
        self.warned = False

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        problem = None if self.warned else self.finite_weights.problem(self.model)
        if problem is not None:
            self.warned = True
            warn_of_nonfinite_weights(problem, f"in epoch {epoch + 1}")
