"""Trains each attention mechanism on a suitable task, and prints a table of results.

    python examples/compare_attention.py

This command trains a small GRU encoder and decoder with each mechanism, for one or two minutes
each, on generated sequences of letters:

    copy        d a c b  ->  d a c b
    reverse     d a c b  ->  b c a d
    stretch     d a c b  ->  d d a c b b    (every second letter of the alphabet is repeated)
    find        d a C b  ->  c              (the only capital letter)
    unique      d a d b  ->  d a b          (removes repeated letters)
    interleave  d a | c b  ->  d c a b      (two sources, each with its own attention)

Each model is exported to ONNX. The outputs of the ONNX file for 1,000 new sequences are compared
with the correct results and with the outputs of Keras. `--out RUN` keeps the models,
`results.json`, and `alignments.png` with the attention weights of all mechanisms for one source.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from keras import ops

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.files import atomic_replace
from keras_attn.training import RunDirectory, compile_for_training

LETTERS = "abcdefghijklmnopqrst"
END, SEPARATOR, FIRST = 2, 3, 4  # 0 is padding, 1 is the start token
SIZE = FIRST + 2 * len(LETTERS)  # small letters, then capital letters
LENGTHS = (3, 12)
LONGEST = LENGTHS[1] + 1


# Name: task, function that creates the mechanism, attributes to set after training.
MECHANISMS = {
    "additive": ("reverse", lambda: keras_attn.BahdanauAttention(64), {}),
    "additive, normalized": (
        "reverse",
        lambda: keras_attn.BahdanauAttention(64, normalize=True),
        {},
    ),
    "dot": ("copy", lambda: keras_attn.LuongAttention("dot", scale=True), {}),
    "general": ("reverse", lambda: keras_attn.LuongAttention("general"), {}),
    "concat": ("reverse", lambda: keras_attn.LuongAttention("concat", units=64), {}),
    "scaled dot product": ("copy", lambda: keras_attn.ScaledDotProductAttention(), {}),
    "cosine": ("copy", lambda: keras_attn.CosineAttention(), {}),
    "linear": ("find", lambda: keras_attn.LinearScoreAttention(), {}),
    "location": ("copy", lambda: keras_attn.LocationAttention(LENGTHS[1] + 1), {}),
    "several heads": ("reverse", lambda: keras_attn.MultiHeadAttention(4, 16), {}),
    "sparsemax": (
        "reverse",
        lambda: keras_attn.BahdanauAttention(64, probability_fn="sparsemax"),
        {},
    ),
    "hardmax": (
        "copy",
        lambda: keras_attn.BahdanauAttention(64, probability_fn="sparsemax"),
        {"probability_fn": "hardmax"},
    ),
    "local, predictive": (
        "copy",
        lambda: keras_attn.LocalAttention(keras_attn.LuongAttention("general"), window=3),
        {},
    ),
    "local, monotonic": (
        "copy",
        lambda: keras_attn.LocalAttention(
            keras_attn.LuongAttention("general"), window=2, alignment="monotonic"
        ),
        {},
    ),
    "location-sensitive": (
        "stretch",
        lambda: keras_attn.LocationSensitiveAttention(64, filters=16, kernel_size=7),
        {},
    ),
    "coverage": ("reverse", lambda: keras_attn.CoverageAttention(64), {}),
    "source and own past": (
        "unique",
        lambda: keras_attn.CombinedAttention(
            {
                "source": keras_attn.LuongAttention("general"),
                "past": keras_attn.IntraDecoderAttention(keras_attn.LuongAttention("general")),
            }
        ),
        {},
    ),
    "two sources": ("interleave", lambda: two_sources("concatenate"), {}),
    "two sources, gated": ("interleave", lambda: two_sources("gate"), {}),
    "monotonic, parallel": ("stretch", lambda: monotonic("parallel"), {}),
    "monotonic, recursive": ("stretch", lambda: monotonic("recursive"), {}),
    "monotonic, hard": (
        "stretch",
        # With noise, training must produce large scores. This takes longer with additive scores.
        lambda: keras_attn.MonotonicAttention(
            keras_attn.LuongAttention("general"), sigmoid_noise=2.0, score_bias=-1.0
        ),
        {"mode": "hard"},
    ),
}


def monotonic(mode):
    return keras_attn.MonotonicAttention(
        keras_attn.BahdanauAttention(64, normalize=True), mode, score_bias=-1.0
    )


def two_sources(combination):
    attentions = {name: keras_attn.LuongAttention("general") for name in ("first", "second")}
    return keras_attn.CombinedAttention(attentions, combination, units=128)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=MECHANISMS, help="mechanisms; all by default")
    parser.add_argument("--out", type=Path, help="folder for models, results and the picture")
    parser.add_argument(
        "--epochs", type=int, default=30, help="maximum number of epochs, of 100 batches each"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = args.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        print(f"{'mechanism':24}{'task':10}{'exact':>9}{'ONNX ids':>10}{'seconds':>9}")
        names = args.only or list(MECHANISMS)
        arguments = {"epochs": args.epochs, "seed": args.seed}
        rows = rows_of(out / "results.json", arguments)
        for name in names:
            row = compare(name, args, out)
            rows = [other for other in rows if other["model"] != row["model"]] + [row]
            results = {"arguments": arguments, "rows": rows}
            with atomic_replace(out / "results.json") as partial:
                partial.write_text(json.dumps(results, indent=2))
        if args.out:
            draw(names, out)


def rows_of(path, arguments):
    """Returns the rows of an earlier run with the same arguments."""
    before = json.loads(path.read_text()) if path.exists() else {}
    return before["rows"] if before.get("arguments") == arguments else []


def compare(name, args, out):
    """Trains, exports and measures one mechanism. Returns its row of the table."""
    task, make_attention, after_training = MECHANISMS[name]
    started = time.process_time()
    keras.utils.set_random_seed(args.seed)  # before layers sample seeds for their weights
    encoder, decoder = train(task, make_attention(), args)
    for attribute, value in after_training.items():
        setattr(decoder.cell.attention, attribute, value)
    seconds = time.process_time() - started
    search = keras_attn.GreedyDecoder(decoder, max_length=2 * LONGEST, name="search")
    translator = keras_attn.GenerationModel(encoder, search)
    sources, targets = make_examples(task, 1000, np.random.default_rng(args.seed + 1))
    RunDirectory.create(out / name, "generation").save_model(translator)
    path = out / f"{name}.onnx"
    sentences = [ids[ids > 0].tolist() for ids in sources]
    parity = export_onnx(translator, path, alignments=True, parity_sentences=sentences)
    found = translate(path, sources)["token_ids"][:, 0]
    exact, same = float(np.mean(is_right(found, targets))), parity.best_equal
    print(f"{name:24}{task:10}{exact:9.1%}{same:10.1%}{seconds:9.0f}", flush=True)
    return {
        "model": f"{name}: {task}",
        "exact_match": exact,
        "same_ids_in_onnx": same,
        "cpu_seconds": round(seconds, 1),
    }


def train(task, attention, args):
    """Trains an encoder and a decoder on a task, and returns them."""
    read = keras.layers.Embedding(SIZE, 64, keras.initializers.RandomNormal(stddev=1.0))
    encoder = keras_attn.RNNEncoder(keras.layers.GRUCell(64), read, name="encoder")
    if task == "interleave":
        encoder = TwoSources(encoder, name="encoder")
    # The bidirectional encoder has 128 features, and some scores need queries of the same size.
    cell = keras_attn.AttentionRNNCell(
        keras.layers.GRUCell(128), attention, input_feeding=False, attention_units=64
    )
    write = keras.layers.Embedding(SIZE, 64, keras.initializers.RandomNormal(stddev=1.0))
    decoder = keras_attn.RNNDecoder(cell, write, head=keras.layers.Dense(SIZE), name="decoder")
    rate = keras.optimizers.schedules.ExponentialDecay(2e-3, decay_steps=100, decay_rate=0.9)
    trainer = compile_for_training(
        keras_attn.TrainingModel(encoder, decoder), learning_rate=rate, label_smoothing=0.0
    )
    trainer.fit(
        Batches(task, [args.seed, 0], 100),
        validation_data=Batches(task, [args.seed, 1], 10),
        epochs=args.epochs,
        callbacks=[StopWhenLearned()],
        verbose=0,
    )
    return encoder, decoder


@keras.saving.register_keras_serializable(package="compare_attention")
class TwoSources(keras.layers.Layer):
    """Encodes a source of two parts, which a separator divides, as two memories."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.vocabulary_size = SIZE  # required for an export

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config):
        encoder = keras.saving.deserialize_keras_object(config.pop("encoder"))
        return cls(encoder, **config)

    def build(self, source_shape):
        self.encoder.build(source_shape)

    def call(self, source_ids):
        encoded = self.encoder(source_ids)
        outputs, mask = encoded["encoder_outputs"], encoded["encoder_mask"]
        separators = ops.cumsum(ops.cast(source_ids == SEPARATOR, "int32"), axis=1)
        masks = {"first": mask & (separators == 0), "second": mask & (separators == 1)}
        return {
            **encoded,
            "encoder_outputs": {name: outputs for name in masks},
            "encoder_mask": masks,
        }


class Batches(keras.utils.PyDataset):
    """Batches of newly generated examples."""

    def __init__(self, task, seed, number):
        super().__init__()
        self.task = task
        self.generator = np.random.default_rng(seed)
        self.number = number

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        sources, targets = make_examples(self.task, 64, self.generator)
        starts = np.full((len(targets), 1), 1, "int32")
        inputs = np.concatenate([starts, targets[:, :-1]], axis=1)
        return {"source_ids": sources, "target_ids": inputs}, targets


class StopWhenLearned(keras.callbacks.Callback):
    """Stops the training when almost all validation tokens are correct."""

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = logs["val_token_accuracy"] > 0.9998


def make_examples(task, number, generator):
    """Returns sources and targets, int32 `(number, length)`, with end token and padding."""
    pairs = []
    for length in generator.integers(LENGTHS[0], LENGTHS[1] + 1, number):
        letters = generator.integers(0, len(LETTERS), length)
        target = letters
        if task == "reverse":
            target = letters[::-1]
        elif task == "stretch":
            target = np.repeat(letters, 1 + letters % 2)
        elif task == "find":
            place = generator.integers(length)
            target = letters[place : place + 1]
            letters = letters + len(LETTERS) * (np.arange(length) == place)
        elif task == "unique":
            target = np.array(list(dict.fromkeys(letters)))
        elif task == "interleave":
            first, second = letters[: 2 * ((length - 1) // 2)].reshape(2, -1)
            letters = np.concatenate([first, [SEPARATOR - FIRST], second])
            target = np.stack([first, second], axis=1).reshape(-1)
        pairs.append([[*(ids + FIRST), END] for ids in (letters, target)])
    sides = zip(*pairs, strict=True)
    sizes = (LONGEST, LONGEST + (LENGTHS[1] if task == "stretch" else 0))
    return [
        keras.utils.pad_sequences(side, maxlen=size, padding="post")
        for side, size in zip(sides, sizes, strict=True)
    ]


def translate(path, sources):
    """Runs an exported file, and returns its outputs by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {
        "source_ids": sources,
        "max_length": np.array(2 * LONGEST, "int32"),
        "length_penalty": np.array(0.0, "float32"),
    }
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, fed), strict=True))


def is_right(found, targets):
    """Returns a bool for each row, whether its ids are equal except for padding and end tokens."""
    found, targets = (
        keras.utils.pad_sequences(ids, maxlen=2 * LONGEST, padding="post")
        for ids in (found, targets)
    )
    return (np.where(found == END, 0, found) == np.where(targets == END, 0, targets)).all(axis=1)


def draw(names, out):
    """Draws one heat map for each mechanism, for the same source letters."""
    import matplotlib.pyplot as plt

    from keras_attn.visualize import plot_alignments

    columns = 4
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3 * columns, 3 * rows), squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes.flat, names, strict=False):
        task = MECHANISMS[name][0]
        ids = np.array([LETTERS.index(letter) for letter in "dacbhgf"])
        if task == "unique":
            ids[4] = ids[0]
        elif task == "find":
            ids[2] += len(LETTERS)
        elif task == "interleave":
            ids[3] = SEPARATOR - FIRST
        source = np.append(ids + FIRST, END).astype("int32")[None]
        found = translate(out / f"{name}.onnx", source)
        length = np.count_nonzero(found["token_ids"][0, 0])
        plot_alignments(
            found["alignments"][0, 0, :length],
            spell(source[0]),
            spell(found["token_ids"][0, 0, :length]),
            ax=ax,
            title=f"{name} ({task})",
        )
    figure.tight_layout()
    with atomic_replace(out / "alignments.png") as partial:
        figure.savefig(partial, dpi=70)


def spell(ids):
    names = ["", "<s>", "</s>", "|", *LETTERS, *LETTERS.upper()]
    return [names[id] for id in ids]


if __name__ == "__main__":
    main()
