"""Code shared by the Keras sides of the training benchmarks, which train with `model.fit`."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf
from machine import use_cores
from training_speed import TRAINING

from keras_attn.training import compile_for_training


def read_settings():
    """Returns the settings of this process and configures its threads."""
    settings = json.loads(sys.argv[-1])
    use_cores(settings["threads"])
    tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
    return settings


def measure(model, settings, **versions):
    """Prints the losses of three steps or the speed after a warm-up, as JSON.

    Args:
        model: model that maps `source_ids` and `target_ids` to logits; it is compiled here.
        settings: dict returned by `read_settings`; `measure` is `"losses"` or `"rate"`.
        **versions: versions of packages other than Keras, TensorFlow and NumPy.
    """
    trainer = compile_for_training(model, **{name: settings[name] for name in TRAINING})
    batches = read_batches(settings["batches"])
    if settings["measure"] == "losses":
        losses = []
        for inputs, labels in batches[:3]:
            trainer.reset_metrics()  # otherwise the loss is the mean since the start
            losses.append(trainer.train_on_batch(inputs, labels, return_dict=True)["loss"])
        print(json.dumps({"losses": [float(loss) for loss in losses]}))
        return

    fit(trainer, batches[: settings["warmup_steps"]])
    timed = batches[settings["warmup_steps"] :]
    started = time.perf_counter()
    fit(trainer, timed)
    seconds = time.perf_counter() - started
    print(json.dumps({"rate": num_tokens(timed) / seconds, "versions": with_ours(versions)}))


def fit(trainer, batches):
    ids = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=({"source_ids": ids, "target_ids": ids}, ids)
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    options = tf.data.Options()
    # The autotuning thread sleeps as long as it has run, and the end of the dataset waits for it.
    options.autotune.enabled = False
    trainer.fit(dataset.prefetch(8).with_options(options), shuffle=False, verbose=0)


def read_batches(path):
    """Returns pairs of inputs and labels, as from `LengthBucketedBatches`."""
    with np.load(path) as arrays:
        return [
            (
                {name: arrays[f"{name}_{step}"] for name in ("source_ids", "target_ids")},
                arrays[f"labels_{step}"],
            )
            for step in range(len(arrays.files) // 3)
        ]


def num_tokens(batches):
    """Returns the number of target tokens without padding."""
    return sum(int(np.count_nonzero(labels)) for _, labels in batches)


def with_ours(versions):
    """Adds the versions of Keras, TensorFlow and NumPy to a dict of versions."""
    ours = {"keras": keras.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}
    return {**ours, **versions}
