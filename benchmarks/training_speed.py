"""How the speed of training is measured on several sides: ours, and one or more peers.

A side is a command that takes settings as JSON, as its last argument, and prints JSON. Each
measurement is a process of its own. The first side is ours: it writes the first weights, which the
others read.
"""

import json
import statistics
import sys
from pathlib import Path

from arguments import argument_parser
from own_process import run

HERE = Path(__file__).parent
TRAINING = {"label_smoothing": 0.1, "learning_rate": 1e-3, "global_clipnorm": 1.0, "epsilon": 1e-7}
# The largest difference allowed between the losses of the first three steps.
TOLERANCE = 1e-4


def training_parser(doc):
    """The arguments that all these benchmarks have."""
    parser = argument_parser(doc, threads=2, seed=1)
    parser.add_argument("--data", type=Path, help="directory of parallel files")
    parser.add_argument("--source", default="source", help="suffix of the source files")
    parser.add_argument("--target", default="target", help="suffix of the target files")
    parser.add_argument("--name", help="of the results; default: of the data")
    parser.add_argument("--peer-python", default=sys.executable, help="Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--tokens-per-batch", type=int, default=4096)
    return parser


def side_settings(args, directory):
    """What the sides of all these benchmarks are told, besides the model."""
    return {
        **TRAINING,
        "batches": str(directory / "batches.npz"),
        "weights": str(directory / "weights.npz"),
        "warmup_steps": args.warmup_steps,
        "threads": args.threads,
        "seed": args.seed,
    }


def check_same_model(sides, settings):
    """Losses of the first steps of each side, without dropout; stops if they are not the same."""
    # Adam's epsilon is added after the correction of the bias in PyTorch, and before it in Keras.
    # So small, it does not matter.
    settings = {**settings, "measure": "losses", "dropout": 0.0, "epsilon": 1e-12}
    losses = {side: measure(command, settings)["losses"] for side, command in sides.items()}
    print("losses:", losses)
    ours, *peers = losses.values()
    for theirs in peers:
        for our_loss, their_loss in zip(ours, theirs, strict=True):
            if not abs(our_loss - their_loss) <= TOLERANCE:
                raise SystemExit(
                    f"Not the same model: the losses differ by {abs(our_loss - their_loss)}."
                )
    return losses


def time_in_turn(sides, settings, rounds):
    """The rates of each side, of which each round measures one, and the versions of what ran."""
    rates, versions = {side: [] for side in sides}, {}
    for number in range(1, rounds + 1):
        for side, command in sides.items():
            result = measure(command, {**settings, "measure": "rate"})
            rates[side].append(round(result["rate"], 1))
            for package, version in result["versions"].items():
                if versions.setdefault(package, version) != version:
                    raise SystemExit(
                        f"All sides must have the same {package}. Received: {versions[package]} "
                        f"and, in {command[0]}, {version}."
                    )
        print(f"round {number}:", ", ".join(f"{side} {rates[side][-1]}" for side in sides))
    return rates, versions


def measure(command, settings):
    return run([*command, json.dumps(settings)], settings["threads"])


def comparison(model, peer, rates, losses, their_side, our_side="ours"):
    """A row of the results: the medians of our side and of a peer's, and their ratio."""
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
