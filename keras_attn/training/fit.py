from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from os import PathLike
from typing import Any

import keras

from keras_attn._backend.replicas import (
    num_data_replicas,
    pad_batch_to_replicas,
    pad_to_replicas,
    rows_of_worker,
)
from keras_attn._backend.workers import explain_lost_workers, is_chief
from keras_attn._files.path_lock import PathLock
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.training.finite_weights import FiniteWeights, warn_of_nonfinite_weights
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
    """`model.fit` on batches, which resumes a training that was killed.

    With a `directory` the state is saved there while training (see `TrainingCheckpoint`). Called
    again with the same arguments after a kill, it restores the last state and runs the rest of
    that epoch and the epochs after it. On a CPU the weights are then equal to those of a training
    that was not killed; on a GPU this also needs deterministic operations (in TensorFlow,
    `tf.config.experimental.enable_op_determinism()`). The logs of the epoch of the kill cover its
    remaining steps only. Called after the end, it restores the weights and trains no more, unless
    `epochs` was raised; where a callback ended the training with an epoch, it trains no more at
    all (a training that ended in the middle of one goes on from the last state).

    The state has the learning rate of the optimizer, so a number that was compiled for the rest of
    the training is ignored; a schedule is not, nor is `LearningRateScheduler` of Keras.

    The state also has a fingerprint: the configuration of the model, the optimizer and its
    settings, the loss and its weights, the steps of an epoch and checksums of two batches. Of
    functions it has the code and the values that they use. If any of them changed, the error names
    it. More epochs, another directory, other callbacks and metrics, and a learning
    rate that is a number may change.

    Where several workers train the model (see `strategy`), all call `fit` with the same arguments.
    Worker 0 writes the files and shows the progress; the others read the files, so the directory
    must be one that all machines share. If a worker ends, `fit` fails in the others. Started
    again, all resume from the last state.

    One training at a time can use the directory, and those of callbacks: a lock, which a kill
    releases, names the process that has it.

    Keras' own callbacks that count, such as `EarlyStopping`, start from the beginning when training
    resumes; those of this package do not.

    Variables of the model or the optimizer that become NaN or infinite, such as a moving variance,
    give one warning, and such a state is not saved.

    Args:
        model: built `keras.Model`, compiled, see `compile_for_training`.
        batches: object with `steps_per_epoch`, `dataset(start_step)` (TensorFlow: a
            `tf.data.Dataset` without end) and `stream(start_step)` (other backends: an iterator
            without end), such as `keras_attn.text.LengthBucketedBatches`. What is in a step must
            follow from its number alone. Under a strategy of TensorFlow or a
            `keras.distribution.DataParallel` of JAX, batches that the replicas cannot divide evenly
            get rows whose labels are the loss's `ignore_class`, by default 0, which loss and
            metrics must ignore, as those of this package do.
        epochs: int, epochs of the whole training, those before a kill included.
        directory: optional path of the saved state. Default None: nothing is saved.
        save_steps: int >= 1, steps between two saves; an epoch's end is always saved. Default 1000.
        validation_batches: optional object like `batches`, whose first epoch is the validation set.
        callbacks: optional list of callbacks.
        verbose: as in `model.fit`. Default `"auto"`.
        on_mismatch: `"error"` or `"warn"`, what to do if the saved state is of another model,
            optimizer, loss or data. With `"warn"` training goes on if the variables have the same
            shapes; if the steps of an epoch changed, after the last epoch that ended. Default
            `"error"`.

    Returns:
        `keras.callbacks.History` of all epochs, those before a kill included.

    Raises:
        ValueError: `epochs` is no positive integer, `batches` or `callbacks` are of another kind,
            the model is not compiled, its `steps_per_execution` does not
            divide `batches.steps_per_epoch`, its optimizer accumulates gradients under a strategy
            with several replicas, the saved state does not fit, or with a `directory` something
            else than a step sets the weights at the end of each call of `model.fit`: the
            optimizer's `use_ema` (see `AverageWeights`), or a callback's `restore_best_weights`
            (see `BestCheckpoint`).
        OSError: nothing can be written to the `directory`, or it is a file.
        RuntimeError: another training uses the `directory` or the path of a callback, a worker was
            lost, or the workers do not see the same saved state.

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
            f"Expected a compiled model. Received: model={model}. See compile_for_training."
        )
    _check_batches("batches", batches)
    if validation_batches is not None:
        _check_batches("validation_batches", validation_batches)
    callbacks = _list_of_callbacks(callbacks)
    steps_per_epoch = batches.steps_per_epoch
    if steps_per_epoch % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide the steps of an epoch: Keras would take more. "
            f"Received: steps_per_execution={model.steps_per_execution}, "
            f"steps_per_epoch={steps_per_epoch}."
        )
    refuse_gradient_accumulation(model)
    history = keras.callbacks.History()
    all_callbacks: list[Any] = [*callbacks, history]
    for callback in all_callbacks:
        callback.set_model(model)  # As Keras does, but where nothing is left to train too.
    if directory is None:
        checkpoint = None
        all_callbacks.append(_WarnOfNonfiniteWeights(FiniteWeights(model)))
    else:
        _refuse_other_weights(model, all_callbacks)
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
        step = 0
        if checkpoint is not None:
            checkpoint.restore(model)
            history.history = {name: list(values) for name, values in checkpoint.history.items()}
            if checkpoint.finished:
                return _numbered(history)
            step = checkpoint.step
        with explain_lost_workers(model):
            _train(model, batches, epochs, step, validation_batches, all_callbacks, verbose)
    return _numbered(history)


def _check_batches(name, batches):
    """Raises a `ValueError` unless an object has what `fit` takes from batches."""
    method = "dataset" if keras.backend.backend() == "tensorflow" else "stream"
    steps = getattr(batches, "steps_per_epoch", None)
    if steps is None or not callable(getattr(batches, method, None)):
        raise ValueError(
            f"Expected {name} with the attribute steps_per_epoch and the method "
            f"{method}(start_step), such as keras_attn.text.LengthBucketedBatches. Received: "
            f"{name} of type {type(batches).__name__}. Write a class that has both, or train on "
            "arrays and datasets with model.fit, which does not resume."
        )
    check_positive_integer(f"{name}.steps_per_epoch", steps)


def _list_of_callbacks(callbacks):
    """The callbacks as a list; `None`, the default of `model.fit`, stands for no callbacks."""
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, (list, tuple)) or not all(
        isinstance(each, keras.callbacks.Callback) for each in callbacks
    ):
        raise ValueError(
            f"Expected a list of keras.callbacks.Callback. Received: callbacks={callbacks!r}. Pass "
            "instances in a list."
        )
    return list(callbacks)


def _refuse_other_weights(model, callbacks):
    """Refuses what sets the weights at the end of each call of `model.fit`."""
    if getattr(model.optimizer, "inner_optimizer", model.optimizer).use_ema:
        raise ValueError(
            "Expected an optimizer without use_ema, whose training cannot go on after a kill. "
            "Received: use_ema=True. Use AverageWeights."
        )
    for callback in callbacks:
        if getattr(callback, "restore_best_weights", False):
            raise ValueError(
                "Expected callbacks that leave the weights as they are, for a training that "
                f"can go on. Received: {type(callback).__name__} with "
                "restore_best_weights=True. Use BestCheckpoint."
            )


def _train(model, batches, epochs, step, validation_batches, callbacks, verbose):
    """Runs `model.fit` from a step to the end of the last epoch."""
    steps_per_epoch = batches.steps_per_epoch
    validation = {}
    if validation_batches is not None:
        validation["validation_data"] = _validation_data(model, validation_batches)
        validation["validation_steps"] = validation_batches.steps_per_epoch

    def run(initial_epoch, epochs, num_steps):
        model.fit(
            _training_data(model, batches, step),
            steps_per_epoch=num_steps,
            initial_epoch=initial_epoch,
            epochs=epochs,
            shuffle=False,
            callbacks=callbacks,
            verbose=verbose,
            **validation,
        )
        return model.stop_training

    epoch, offset = divmod(step, steps_per_epoch)
    if offset:
        stopped = run(epoch, epoch + 1, steps_per_epoch - offset)
        epoch += 1
        step = epoch * steps_per_epoch
        if stopped or epoch == epochs:
            return
    run(epoch, epochs, steps_per_epoch)


def _numbered(history):
    """Keras numbers the epochs of its last `fit` only."""
    history.epoch = list(range(max(map(len, history.history.values()), default=0)))
    return history


def _training_data(model, batches, start_step):
    if keras.backend.backend() != "tensorflow":
        # Keras takes generators, and no other iterators.
        return (_for_replicas(model, batch) for batch in batches.stream(start_step))
    return _dataset_for_replicas(model, batches.dataset(start_step))


def _validation_data(model, batches):
    if keras.backend.backend() != "tensorflow":
        return _OneEpoch(model, batches)
    import tensorflow as tf

    steps = batches.steps_per_epoch
    # Keras reads a dataset of unknown size once more than there are epochs in it.
    dataset = batches.dataset(0).take(steps).apply(tf.data.experimental.assert_cardinality(steps))
    return _dataset_for_replicas(model, dataset)


def _dataset_for_replicas(model, dataset):
    import tensorflow as tf

    # Workers divide the rows of each batch; by default TensorFlow may divide files or batches.
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    dataset = dataset.with_options(options)
    return pad_to_replicas(dataset, num_data_replicas(model), _ignore_class(model))


def _for_replicas(model, batch):
    replicas = num_data_replicas(model)
    if replicas == 1:
        return batch
    return rows_of_worker(pad_batch_to_replicas(batch, replicas, _ignore_class(model)))


def _ignore_class(model):
    return getattr(model.loss, "ignore_class", None) or 0


class _OneEpoch(keras.utils.PyDataset):
    """The first epoch of batches, which can be read again and again."""

    def __init__(self, model: keras.Model, batches: Any) -> None:
        super().__init__()
        first = islice(batches.stream(0), batches.steps_per_epoch)
        self._batches = [_for_replicas(model, batch) for batch in first]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class _WarnOfNonfiniteWeights(keras.callbacks.Callback):
    """Checks the variables after each epoch, as `TrainingCheckpoint` does before it saves them."""

    def __init__(self, finite_weights: Any) -> None:
        super().__init__()
        self.finite_weights = finite_weights
        self.warned = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        problem = None if self.warned else self.finite_weights.problem(self.model)
        if problem is not None:
            self.warned = True
            warn_of_nonfinite_weights(problem, f"in epoch {epoch + 1}")
