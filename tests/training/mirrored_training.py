"""Trains the toy model on one device and on two logical CPUs and prints the differences as JSON.

TensorFlow supports one MirroredStrategy per process, so the tests run this in a separate process.
"""

import json
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_attn._attention.attention_losses import coverage_loss
from keras_attn.training import (
    LossScaleOptimizer,
    Perplexity,
    SequenceCrossentropy,
    TokenAccuracy,
    compile_for_training,
    fit,
    make_strategy,
)
from tests.training.toy_training import ToyBatches, toy_model

# A batch of one sentence leaves a replica without sentences; odd batches cannot be halved.
SIZES = (1, 5, 4, 3, 7, 1, 2, 3, 6, 5)
NUM_EPOCHS = 5  # each epoch has ten steps


class LogsOfEachStep(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.logs = {}

    def on_train_batch_begin(self, batch, logs=None):
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        for name, value in logs.items():
            self.logs.setdefault(f"{name} of each step", []).append(value)


def by_package(devices, directory):
    """Trains with `compile_for_training` and `fit`, with clipped gradients."""
    model = new_model(devices, compile_with_clipping)
    steps = LogsOfEachStep()
    batches, validation = ToyBatches(SIZES), ToyBatches(SIZES[1:4], seed=1)
    fit(model, batches, epochs=NUM_EPOCHS, directory=directory, callbacks=[steps], verbose=0)
    shutil.copytree(directory, f"{directory}-copy")
    epochs = fit(
        model,
        batches,
        epochs=NUM_EPOCHS + 2,
        directory=directory,
        save_steps=1000,
        validation_data=validation,
        verbose=0,
    ).history
    return {**steps.logs, **epochs}, model.get_weights()


def resumed(devices, directory):
    """Returns the weights of a new model that resumed a state of `by_package` before its end."""
    model = new_model(devices, compile_with_clipping)
    fit(model, ToyBatches(SIZES), epochs=NUM_EPOCHS + 2, directory=f"{directory}-copy", verbose=0)
    return model.get_weights()


def by_keras(devices):
    """Trains with our loss and metrics and Keras' `fit`, which can leave a replica without rows."""

    def compile_model(model):
        loss = SequenceCrossentropy(label_smoothing=0.1)
        metrics = [TokenAccuracy(), Perplexity()]
        model.compile(keras.optimizers.SGD(0.5), loss, metrics=metrics, jit_compile=False)

    model = new_model(devices, compile_model)
    # Keras fails if the first batch cannot be halved.
    sizes = SIZES[2:] + SIZES[:2]
    dataset = ToyBatches(sizes).dataset()
    return model.fit(
        dataset,
        steps_per_epoch=len(sizes),
        epochs=NUM_EPOCHS,
        validation_data=dataset,
        validation_steps=len(sizes),
        shuffle=False,
        verbose=0,
    ).history


def coverage(devices):
    """Returns the mean coverage loss of the replicas, which Keras uses."""
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (6, 4)).astype("float32")  # (B, T, S)
    mask = np.arange(4) < np.array([[4], [4], [3], [2], [1], [1]])

    def of_a_part():
        first = tf.distribute.get_replica_context().replica_id_in_sync_group
        rows = tf.range(first, 6, devices.num_replicas_in_sync)
        return coverage_loss(tf.gather(weights, rows), tf.gather(mask, rows))

    losses = devices.experimental_local_results(devices.run(tf.function(of_a_part)))
    return float(np.mean(losses))


def finite_steps(devices):
    """Returns whether each replica takes a step.

    First with finite gradients, then with an infinite gradient in the second replica.
    """
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())

    def is_finite():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return [
            optimizer.check_finite([tf.ones(3), tf.constant(last) * tf.cast(replica, "float32")])
            for last in (1.0, float("inf"))
        ]

    results = devices.run(tf.function(is_finite))
    return [
        [bool(each) for each in devices.experimental_local_results(result)] for result in results
    ]


def compile_with_clipping(model):
    compile_for_training(model, 0.01, global_clipnorm=0.5)


def new_model(devices, compile_model):
    keras.utils.set_random_seed(0)
    with devices.scope():
        model = toy_model()
        compile_model(model)
    return model


def main(directory):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one = make_strategy("none")
    two = make_strategy("mirrored", devices=["CPU:0", "/cpu:1"])
    assert two is make_strategy("mirrored", devices=["CPU:0", "CPU:1"])
    assert two.num_replicas_in_sync == 2
    logs_of_one, _ = by_package(one, directory / "one")
    logs_of_two, weights = by_package(two, directory / "two")
    pairs = zip(weights, resumed(two, directory / "two"), strict=True)
    report = {
        "by_package": {"one": logs_of_one, "two": logs_of_two},
        "by_keras": {"one": by_keras(one), "two": by_keras(two)},
        "coverage": {"one": coverage(tf.distribute.get_strategy()), "two": coverage(two)},
        "finite_steps": finite_steps(two),
        "resumed_equal": all(np.array_equal(unbroken, resumed) for unbroken, resumed in pairs),
    }
    (directory / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
