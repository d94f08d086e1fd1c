"""Trains a small translator with each of five attention mechanisms, and draws their weights.

    python examples/compare_attention.py --out build/attention

Each mechanism learns one of these tasks, all in about four minutes:

    copy        d a c b  ->  d a c b
    reverse     d a c b  ->  b c a d
    stretch     d a c b  ->  d d a c b b    (every second letter of the alphabet is repeated)
    find        d a C b  ->  c              (the only capital letter)

It prints the share of 1,000 new sequences without an error, and writes alignments.png and a run
directory for each mechanism, which you can export:

    keras-attn export onnx build/attention/additive additive.onnx
"""

import argparse
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_attn
from keras_attn.files import atomic_replace
from keras_attn.training import RunDirectory, compile_for_training
from keras_attn.visualize import plot_alignments

LETTERS = "abcdefghijklmnopqrst"
NAMES = ["", "<s>", "</s>", "|", *LETTERS, *LETTERS.upper()]  # of the ids; "" is padding
START, END, FIRST = 1, 2, 4
SHORTEST, LONGEST, MAX_LENGTH = 3, 12, 26
EPOCHS, STEPS, BATCH_SIZE = 30, 100, 64


def find_capital(letters):
    """Returns the letters with one capital, and this letter."""
    is_capital = np.arange(len(letters)) == letters.sum() % len(letters)
    return letters + len(LETTERS) * is_capital, letters[is_capital]


TASKS = {  # functions that return the letters of the source and those of the target
    "copy": lambda letters: (letters, letters),
    "reverse": lambda letters: (letters, letters[::-1]),
    "stretch": lambda letters: (letters, np.repeat(letters, 1 + letters % 2)),
    "find": find_capital,
}
MECHANISMS = {  # a task, and a function that creates the mechanism
    "additive": ("reverse", lambda: keras_attn.BahdanauAttention(64)),
    "several heads": ("reverse", lambda: keras_attn.MultiHeadAttention(4, 16)),
    "linear": ("find", lambda: keras_attn.LinearScoreAttention()),
    "location": ("copy", lambda: keras_attn.LocationAttention(LONGEST + 1)),
    "location-aware": ("stretch", lambda: keras_attn.LocationSensitiveAttention(64, kernel_size=7)),
}


def make_examples(task, number, generator):
    """Returns sources and targets, int32 `(number, length)`, with end token and padding."""
    pairs = []
    for length in generator.integers(SHORTEST, LONGEST + 1, number):
        sides = TASKS[task](generator.integers(0, len(LETTERS), length))
        pairs.append([[*(letters + FIRST), END] for letters in sides])
    sizes = (LONGEST + 1, LONGEST * (1 + (task == "stretch")) + 1)
    return [pad(ids, size) for ids, size in zip(zip(*pairs, strict=True), sizes, strict=True)]


def pad(ids, size):
    return keras.utils.pad_sequences(ids, maxlen=size, padding="post")


class Batches(keras.utils.PyDataset):
    """Batches of newly generated examples."""

    def __init__(self, task, seed, number):
        super().__init__()
        self.task, self.number = task, number
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        sources, targets = make_examples(self.task, BATCH_SIZE, self.generator)
        starts = np.full((len(targets), 1), START, "int32")
        inputs = np.concatenate([starts, targets[:, :-1]], axis=1)
        return {"source_ids": sources, "target_ids": inputs}, targets


class StopWhenLearned(keras.callbacks.Callback):
    """Stops the training when almost all validation tokens are correct."""

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = logs["val_token_accuracy"] > 0.9998


def make_parts(attention):
    """Creates an encoder, and a decoder with an attention mechanism."""
    normal = keras.initializers.RandomNormal(stddev=1.0)
    read, write = (keras.layers.Embedding(len(NAMES), 64, normal.clone()) for _ in range(2))
    encoder = keras_attn.RNNEncoder(keras.layers.GRUCell(64), read, name="encoder")
    # The bidirectional encoder has 128 features, and some scores need queries of the same size.
    cell = keras_attn.AttentionRNNCell(
        keras.layers.GRUCell(128), attention, input_feeding=False, attention_units=64
    )
    head = keras.layers.Dense(len(NAMES))
    return encoder, keras_attn.RNNDecoder(cell, write, head=head, name="decoder")


def train(encoder, decoder, task, seed=1, epochs=EPOCHS):
    rate = keras.optimizers.schedules.ExponentialDecay(2e-3, STEPS, decay_rate=0.9)
    trainer = keras_attn.TrainingModel(encoder, decoder)
    compile_for_training(trainer, rate, label_smoothing=0.0)
    trainer.fit(
        Batches(task, [seed, 0], STEPS),
        validation_data=Batches(task, [seed, 1], 10),
        epochs=epochs,
        callbacks=[StopWhenLearned()],
        verbose=0,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default="build/attention", help="output directory")
    out = parser.parse_args().out
    figure, axes = plt.subplots(1, len(MECHANISMS), figsize=(3 * len(MECHANISMS), 3))
    for ax, (name, (task, make_attention)) in zip(axes, MECHANISMS.items(), strict=True):
        keras.utils.set_random_seed(1)
        encoder, decoder = make_parts(make_attention())
        train(encoder, decoder, task)
        search = keras_attn.GreedyDecoder(decoder, max_length=MAX_LENGTH, return_alignments=True)
        translator = keras_attn.GenerationModel(encoder, search)
        RunDirectory.create(out / name, "generation").save_model(translator)
        sources, targets = make_examples(task, 1000, np.random.default_rng(2))
        results = translator.predict(sources, verbose=0)
        found = results["token_ids"][:, 0]
        exact = (pad(found, MAX_LENGTH) == pad(targets, MAX_LENGTH)).all(axis=1).mean()
        print(f"{name:20}{task:10}{exact:8.1%} exact", flush=True)
        source = [NAMES[each] for each in sources[0] if each]
        target = [NAMES[each] for each in found[0, : results["lengths"][0, 0] + 1]]
        weights = results["alignments"][0, 0, : len(target), : len(source)]
        plot_alignments(weights, source, target, ax=ax, title=f"{name} ({task})")
    with atomic_replace(out / "alignments.png") as partial:
        figure.savefig(partial, bbox_inches="tight")
    print(f"Wrote {out}, with alignments.png")


if __name__ == "__main__":
    main()
