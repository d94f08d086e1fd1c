"""Trains each attention mechanism on a suitable task, and prints a table of results.

    python benchmarks/attention_mechanisms.py --out build/attention

This script extends `examples/compare_attention.py` to 22 mechanisms, for one or two minutes each,
and two tasks:

    unique      d a d b  ->  d a b          (removes repeated letters)
    interleave  d a | c b  ->  d c a b      (two sources, each with its own attention)

Each model is exported to ONNX. The outputs of the ONNX file for 1,000 new sequences are compared
with the correct results and with the outputs of Keras. `--out RUN` keeps the models,
`results.json`, and `alignments.png` with the attention weights of all mechanisms for one source.
`record_example.py` records the results.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.files import atomic_replace
from keras_attn.training import RunDirectory
from keras_attn.visualize import plot_alignments

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import compare_attention as example
from compare_attention import END, FIRST, LETTERS, LONGEST, MAX_LENGTH, NAMES, TASKS

SEPARATOR = NAMES.index("|")


def unique(letters):
    return letters, np.array(list(dict.fromkeys(letters)))


def interleave(letters):
    first, second = letters[: 2 * ((len(letters) - 1) // 2)].reshape(2, -1)
    source = np.concatenate([first, [SEPARATOR - FIRST], second])
    return source, np.stack([first, second], axis=1).reshape(-1)


TASKS |= {"unique": unique, "interleave": interleave}

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
    "location": ("copy", lambda: keras_attn.LocationAttention(LONGEST + 1), {}),
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
        "--epochs",
        type=int,
        default=example.EPOCHS,
        help="maximum number of epochs, of 100 batches each",
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
    encoder, decoder = example.make_parts(make_attention())
    if task == "interleave":
        encoder = TwoSources(encoder, name="encoder")
    example.train(encoder, decoder, task, args.seed, args.epochs)
    for attribute, value in after_training.items():
        setattr(decoder.cell.attention, attribute, value)
    seconds = time.process_time() - started
    search = keras_attn.GreedyDecoder(decoder, max_length=MAX_LENGTH, name="search")
    translator = keras_attn.GenerationModel(encoder, search)
    sources, targets = example.make_examples(task, 1000, np.random.default_rng(args.seed + 1))
    RunDirectory.create(out / name, "generation").save_model(translator)
    path = out / f"{name}.onnx"
    sentences = [ids[ids > 0].tolist() for ids in sources]
    parity = export_onnx(
        translator, path, alignments=True, parity_sentences=sentences, runtime_settings=[]
    )
    found = translate(path, sources)["token_ids"][:, 0]
    right = example.pad(found, MAX_LENGTH) == example.pad(targets, MAX_LENGTH)
    exact, same = float(right.all(axis=1).mean()), parity.best_equal
    print(f"{name:24}{task:10}{exact:9.1%}{same:10.1%}{seconds:9.0f}", flush=True)
    return {
        "model": f"{name}: {task}",
        "exact_match": exact,
        "same_ids_in_onnx": same,
        "cpu_seconds": round(seconds, 1),
    }


@keras.saving.register_keras_serializable(package="compare_attention")
class TwoSources(keras.layers.Layer):
    """Encodes a source of two parts, which a separator divides, as two memories."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.vocabulary_size = len(NAMES)  # required for an export

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


def translate(path, sources):
    """Runs an exported file, and returns its outputs by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {
        "source_ids": sources,
        "max_length": np.array(MAX_LENGTH, "int32"),
        "length_penalty": np.array(0.0, "float32"),
    }
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, fed), strict=True))


def draw(names, out):
    """Draws one heat map for each mechanism, for the same source letters."""
    columns = 4
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3 * columns, 3 * rows), squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes.flat, names, strict=False):
        task = MECHANISMS[name][0]
        letters = np.array([LETTERS.index(letter) for letter in "dacbhgf"])
        if task == "unique":
            letters[4] = letters[0]
        ids, _ = TASKS[task](letters)
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
    return [NAMES[each] for each in ids]


if __name__ == "__main__":
    main()
