from itertools import islice

import keras

from keras_attn.training.replicas import pad_to_replicas
from keras_attn.training.training_checkpoint import TrainingCheckpoint


def fit(
    model,
    batches,
    epochs,
    directory=None,
    save_steps=1000,
    validation_batches=None,
    callbacks=(),
    verbose="auto",
):
    """`model.fit` on batches, going on where a killed training stopped.

    With a `directory` the state is saved there while training (see `TrainingCheckpoint`). Called
    again with the same arguments after a kill, it restores the last state and runs the rest of
    that epoch and the epochs after it. On a CPU the weights are then equal to those of a training
    that was not killed; on a GPU this also needs deterministic operations (in TensorFlow,
    `tf.config.experimental.enable_op_determinism()`). The logs of the epoch of the kill cover its
    remaining steps only. Called after the end, it restores the weights and trains no more, unless
    `epochs` was raised; where a callback ended the training with an epoch, it trains no more at
    all (a training that ended in the middle of one goes on from the last state).

    The state has the learning rate of the optimizer, so that another number, compiled for what is
    left to train, does not count; a schedule does, as does `LearningRateScheduler` of Keras.

    Keras' own callbacks that count, such as `EarlyStopping`, start anew when training goes on;
    those of this package do not.

    Args:
        model: built `keras.Model`, compiled, see `compile_for_training`.
        batches: object with `steps_per_epoch`, `dataset(start_step)` (TensorFlow: a
            `tf.data.Dataset` without end) and `stream(start_step)` (other backends: an iterator
            without end), such as `keras_attn.text.LengthBucketedBatches`. What is in a step must
            follow from its number alone. Under a strategy, batches that its replicas cannot divide
            get rows whose labels are the loss's `ignore_class`, by default 0, which loss and
            metrics must ignore, as those of this package do.
        epochs: int, epochs of the whole training, those before a kill included.
        directory: optional path of the saved state. Default None: nothing is saved.
        save_steps: int >= 1, steps between two saves; an epoch's end is always saved. Default 1000.
        validation_batches: optional object like `batches`, whose first epoch is the validation set.
        callbacks: list of callbacks.
        verbose: as in `model.fit`. Default `"auto"`.

    Returns:
        `keras.callbacks.History` of all epochs, those before a kill included.

    Raises:
        ValueError: `epochs` below 1, the model is not compiled, its `steps_per_execution` does not
            divide `batches.steps_per_epoch`, the saved state does not fit, or with a `directory`
            something else than a step sets the weights at the end of each call of `model.fit`: the
            optimizer's `use_ema` (see `AverageWeights`), or a callback's `restore_best_weights`
            (see `BestCheckpoint`).
        OSError: nothing can be written to the `directory`.

    Example:

    ```python
    with strategy("auto").scope():
        model = compile_for_training(build_model())
    fit(model, batches, epochs=20, directory="run", validation_batches=validation_batches)
    ```
    """
    if epochs < 1:
        raise ValueError(f"Expected epochs of at least 1. Received: epochs={epochs}")
    if not model.compiled:
        raise ValueError(
            f"Expected a compiled model. Received: model={model}. See compile_for_training."
        )
    steps_per_epoch = batches.steps_per_epoch
    if steps_per_epoch % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide the steps of an epoch: Keras would take more. "
            f"Received: steps_per_execution={model.steps_per_execution}, "
            f"steps_per_epoch={steps_per_epoch}."
        )
    history = keras.callbacks.History()
    callbacks = [*callbacks, history]
    for callback in callbacks:
        callback.set_model(model)  # As Keras does, but where nothing is left to train too.
    step = 0
    if directory is not None:
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
        checkpoint = TrainingCheckpoint(directory, steps_per_epoch, epochs, save_steps, callbacks)
        checkpoint.restore(model)
        history.history = {name: list(values) for name, values in checkpoint.history.items()}
        callbacks.append(checkpoint)
        if checkpoint.finished:
            return _numbered(history)
        step = checkpoint.step

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
            return _numbered(history)
    run(epoch, epochs, steps_per_epoch)
    return _numbered(history)


def _numbered(history):
    """Keras numbers the epochs of its last `fit` only."""
    history.epoch = list(range(max(map(len, history.history.values()), default=0)))
    return history


def _training_data(model, batches, start_step):
    if keras.backend.backend() != "tensorflow":
        # Keras takes generators, and no other iterators.
        return (batch for batch in batches.stream(start_step))
    return _for_replicas(model, batches.dataset(start_step))


def _validation_data(model, batches):
    if keras.backend.backend() != "tensorflow":
        return _OneEpoch(batches)
    import tensorflow as tf

    steps = batches.steps_per_epoch
    # Keras reads a dataset of unknown size once more than there are epochs in it.
    dataset = batches.dataset(0).take(steps).apply(tf.data.experimental.assert_cardinality(steps))
    return _for_replicas(model, dataset)


def _for_replicas(model, dataset):
    replicas = model.distribute_strategy.num_replicas_in_sync
    return pad_to_replicas(dataset, replicas, getattr(model.loss, "ignore_class", None) or 0)


class _OneEpoch(keras.utils.PyDataset):
    """The first epoch of batches, which can be read again and again."""

    def __init__(self, batches):
        super().__init__()
        self._batches = list(islice(batches.stream(0), batches.steps_per_epoch))

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        return self._batches[index]
