"""Small sequence models and their batches for the tests of training."""

import itertools
import os
import signal

import keras
import numpy as np

import keras_attn

VOCABULARY_SIZE = 12


class InterruptAt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` after a number of steps."""

    def __init__(self, step):
        super().__init__()
        self.remaining = step

    def on_train_batch_end(self, batch, logs=None):
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt


class KillAt(keras.callbacks.Callback):
    """Counts the steps and kills the process after a number of steps."""

    def __init__(self, step):
        super().__init__()
        self.step = step
        self.steps_run = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps_run += 1
        if self.steps_run == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


class ToyBatches:
    """Batches of given sizes. Each epoch is shuffled with the number of the epoch as seed."""

    def __init__(self, sizes=(4, 5, 1, 3), seed=0):
        self.sizes = sizes
        self.seed = seed
        self.steps_per_epoch = len(sizes)

    def batch(self, step):
        size = self.sizes[step % self.steps_per_epoch]
        generator = np.random.default_rng((self.seed, step))
        source_ids = generator.integers(1, VOCABULARY_SIZE, (size, 6)).astype("int32")
        labels = np.flip(source_ids, axis=1).copy()
        for row, length in enumerate(generator.integers(1, 7, size)):
            labels[row, length:] = 0
        target_ids = np.where(labels == 0, 0, np.roll(source_ids, 1, axis=1)).astype("int32")
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    def stream(self, start_step=0):
        step = start_step
        while True:
            yield self.batch(step)
            step += 1

    def dataset(self, start_step=0):
        import tensorflow as tf

        ids = tf.TensorSpec((None, None), tf.int32)
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step),
            output_signature=({"source_ids": ids, "target_ids": ids}, ids),
        )


class SumBatches:
    """Batches of four features and their sum."""

    steps_per_epoch = 2

    def batch(self, step):
        x = np.random.default_rng(step % self.steps_per_epoch).normal(size=(6, 4)).astype("float32")
        return x, x.sum(1, keepdims=True)

    def stream(self, start_step=0):
        return (self.batch(step) for step in itertools.count(start_step))

    def dataset(self, start_step=0):
        import tensorflow as tf

        specs = tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1))
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=specs
        )


def toy_model(units=8, activation="tanh", name="hidden"):
    """Returns a small model that maps source and target ids of equal length to logits."""
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "target_ids")
    }
    embedded = [keras.layers.Embedding(VOCABULARY_SIZE, 8)(ids) for ids in inputs.values()]
    joined = keras.layers.Concatenate()(embedded)
    hidden = keras.layers.Dense(units, activation, name=name)(joined)
    logits = keras.layers.Dense(VOCABULARY_SIZE, dtype="float32")(hidden)
    return keras.Model(inputs, logits)


def toy_translator(dropout=0.0, units=8):
    """Returns a small recurrent translator with attention that maps ids to logits."""
    encoder, decoder = keras_attn.rnn_seq2seq(
        VOCABULARY_SIZE, VOCABULARY_SIZE, embedding_dim=8, units=units, dropout=dropout
    )
    return keras_attn.TrainingModel(encoder, decoder)
