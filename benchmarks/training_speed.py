"""Measures the training speed of several sides: keras_attn and one or more peers.

A side is a command. Its last argument is a JSON object of settings, and it prints its results as
JSON. Each measurement runs in a separate process. The first side is keras_attn. It writes the
initial weights, and the peers load them.
"""

import json
import statistics
import sys
from pathlib import Path

from arguments import argument_parser
from own_process import run

HERE = Path(__file__).parent
TRAINING = {"label_smoothing": 0.1, "learning_rate": 1e-3, "global_clipnorm": 1.0, "epsilon": 1e-7}
# Maximum difference between the losses of the first three steps.
TOLERANCE = 1e-4


def training_parser(doc):
    """Returns a parser with the arguments shared by the training benchmarks."""
    parser = argument_parser(doc, threads=2, seed=1)
    parser.add_argument(
        "--data", type=Path, help="directory with parallel files; default: generated ids"
    )
    parser.add_argument("--source", default="source", help="suffix of the source files")
    parser.add_argument("--target", default="target", help="suffix of the target files")
    parser.add_argument("--name", help="name in the results file; default: name of the data")
    parser.add_argument("--peer-python", default=sys.executable, help="Python with PyTorch")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--tokens-per-batch", type=int, default=4096)
    return parser


def side_settings(args, directory):
    """Returns the settings of all sides, except the settings of the model."""
    return {
        **TRAINING,
        "batches": str(directory / "batches.npz"),
        "weights": str(directory / "weights.npz"),
        "warmup_steps": args.warmup_steps,
        "threads": args.threads,
        "seed": args.seed,
    }


def check_same_model(sides, settings):
    """Compares the losses of the first steps without dropout. Stops if they differ."""
    # PyTorch adds Adam's epsilon after the bias correction, Keras before it. With such a small
    # epsilon the difference is negligible.
    settings = {**settings, "measure": "losses", "dropout": 0.0, "epsilon": 1e-12}
    losses = {side: measure(command, settings)["losses"] for side, command in sides.items()}
    print("losses:", losses)
    ours, *peers = losses.values()
    for theirs in peers:
        for our_loss, their_loss in zip(ours, theirs, strict=True):
            if not abs(our_loss - their_loss) <= TOLERANCE:
                raise SystemExit(
                    "Expected equal losses of all sides. Received: "
                    f"difference={abs(our_loss - their_loss)}."
                )
    return losses


def time_in_turn(sides, settings, rounds):
    """Returns the rates of each side, one for each round, and the package versions."""
    rates, versions = {side: [] for side in sides}, {}
    for number in range(1, rounds + 1):
        for side, command in sides.items():
            result = measure(command, {**settings, "measure": "rate"})
            rates[side].append(round(result["rate"], 1))
            for package, version in result["versions"].items():
                if versions.setdefault(package, version) != version:
                    raise SystemExit(
                        f"Expected the same {package} on all sides. Received: {versions[package]} "
                        f"and, in {command[0]}, {version}."
                    )
        print(f"round {number}:", ", ".join(f"{side} {rates[side][-1]}" for side in sides))
    return rates, versions


def measure(command, settings):
    return run([*command, json.dumps(settings)], settings["threads"])


def comparison(model, peer, rates, losses, their_side, our_side="ours"):
    """Returns a row of the results: the medians of keras_attn and of a peer, and their ratio."""
    ours, theirs = (statistics.median(rates[side]) for side in (our_side, their_side))
    row = {
        "model": model,
        "ours": ours,
        "theirs": theirs,
        "peer": peer,
        "unit": "target tokens/s",
        "ratio": round(ours / theirs, 3),
        "ours_runs": rates[our_side],
        "theirs_runs": rates[their_side],
        "losses_without_dropout": {"ours": losses[our_side], "theirs": losses[their_side]},
    }
    print(f"{model}: ours {ours}, {peer} {theirs} {row['unit']}; ratio {row['ratio']}")
    return row


def results_path(benchmark, args):
    name = args.name or (args.data.name if args.data else "generated")
    return args.out / f"{benchmark}-{name}.json"
