"""Training speed of a Transformer in keras_attn, and with the layers of PyTorch and KerasHub.

    python benchmarks/train_transformer.py --data DIR --source en --target de

Trains a small (d=128) and a base (d=512) model on the same batches of `DIR/train.en` and
`DIR/train.de` (plain or `.gz`), or, without `--data`, on generated ids with the lengths of image
captions. Model, loss, clipping and optimizer are the same. The script first checks this: with the
same weights and without dropout, the losses of all libraries must be equal. Then the libraries take
turns in several rounds. Each measurement runs in a separate process, and the result is the median.
KerasHub's blocks have no dropout inside the feed-forward network, so keras_attn is also timed
without this dropout. The script also times the matrix products of the model alone, in TensorFlow.

Writes `benchmarks/results/train_transformer-NAME.json`.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from arguments import settings_of
from machine import load_average
from results_file import write_results
from training_batches import read_corpus, write_batches
from training_speed import (
    HERE,
    TRAINING,
    check_same_model,
    comparison,
    results_path,
    side_settings,
    time_in_turn,
    training_parser,
)

VOCABULARY_SIZE = 8000
SIZES = {
    128: {
        "num_layers": 4,
        "num_heads": 4,
        "embedding_dim": 128,
        "intermediate_dim": 256,
        "dropout": 0.3,
        "learning_rate": 1e-3,
    },
    512: {
        "num_layers": 6,
        "num_heads": 8,
        "embedding_dim": 512,
        "intermediate_dim": 2048,
        "dropout": 0.1,
        # A higher rate makes rounding differences visible in the losses of the first steps.
        "learning_rate": 1e-4,
    },
}
# Name and package of each peer, and our side with the same dropout.
PEERS = {
    "pytorch": ("PyTorch", "torch", "ours"),
    "kerashub": ("KerasHub", "keras_hub", "ours_for_kerashub"),
}


def main():
    parser = training_parser(__doc__)
    parser.add_argument("--kerashub-python", default=sys.executable, help="Python with KerasHub")
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument(
        "--steps",
        type=int,
        nargs="+",
        default=[30, 6],
        help="timed steps of each run, for each size",
    )
    parser.add_argument(
        "--warmup-steps", type=int, default=3, help="steps of each run before the timing"
    )
    args = parser.parse_args()
    if len(args.steps) != len(args.sizes):
        parser.error(
            "expected one value of --steps for each of --sizes, "
            f"received {len(args.steps)} and {len(args.sizes)}"
        )
    load = load_average()
    commands = {
        "ours": [sys.executable, script("keras")],
        "pytorch": [args.peer_python, script("pytorch")],
        "ours_for_kerashub": [sys.executable, script("keras"), "--no-activation-dropout"],
        "kerashub": [args.kerashub_python, script("kerashub")],
        "matmul_only": [sys.executable, script("matmul")],
    }
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        corpus, vocabulary_size = read_corpus(args, VOCABULARY_SIZE, directory)
        settings = {"vocabulary_size": vocabulary_size, **side_settings(args, directory)}
        rows, versions = [], {}
        for size, steps in zip(args.sizes, args.steps, strict=True):
            # The check of the losses needs three steps.
            write_batches(corpus, args, max(args.warmup_steps + steps, 3), settings["batches"])
            size_rows, size_versions = measure_size(commands, {**settings, **SIZES[size]}, args)
            rows += size_rows
            versions |= size_versions

    sizes = {f"d={size}": SIZES[size] for size in args.sizes}
    write_results(
        results_path("train_transformer", args),
        rows,
        versions,
        args.seed,
        settings=settings_of(args, **TRAINING, vocabulary_size=vocabulary_size, sizes=sizes),
        load_average_before=load,
    )


def script(side):
    return str(HERE / f"train_transformer_{side}.py")


def measure_size(commands, settings, args):
    """Returns the rows of one size, one for each peer, and the package versions."""
    sides = {side: command for side, command in commands.items() if side != "matmul_only"}
    losses = check_same_model(sides, settings)
    rates, versions = time_in_turn(commands, settings, args.rounds)
    matmul_only = statistics.median(rates["matmul_only"])
    layers, size = settings["num_layers"], settings["embedding_dim"]
    model = f"transformer_seq2seq, d={size}, {layers} + {layers} layers"
    rows = []
    for peer, (name, package, our_side) in PEERS.items():
        row = comparison(model, f"{name} {versions[package]}", rates, losses, peer, our_side)
        row["matmul_only"] = matmul_only
        row["matmul_only_share"] = round(row["ours"] / matmul_only, 3)
        rows.append(row)
    return rows, versions


if __name__ == "__main__":
    main()
