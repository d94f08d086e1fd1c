"""Speed of training: our model with Bahdanau attention against the same model in PyTorch.

    python benchmarks/train_rnn.py --data DIR --source en --target de

trains both on the same batches of `DIR/train.en` and `DIR/train.de` (plain or `.gz`), or, without
`--data`, on generated ids with the lengths of such captions. Model, loss, clipping and optimizer
are the same, which is tested first: from the same weights and without dropout, both must have the
same losses. Then each side is timed several times, in turn, each time in a process of its own;
what counts is the median. Ours is timed with all that `compile_for_training` and `fit` do, metrics
included.

Writes `benchmarks/results/train_rnn-NAME.json`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
from machine import date, machine

from keras_attn.text import (
    EncodedSentences,
    LengthBucketedBatches,
    ParallelCorpus,
    SentencePieceTokenizer,
)

HERE = Path(__file__).parent
MODEL = {
    "vocabulary_size": 8000,
    "embedding_dim": 256,
    "units": 256,
    "dropout": 0.3,
    "label_smoothing": 0.1,
    "learning_rate": 1e-3,
    "global_clipnorm": 1.0,
    "epsilon": 1e-7,
}
# The largest difference allowed between the losses of the first three steps.
TOLERANCE = 1e-4


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="directory of parallel files")
    parser.add_argument("--source", default="source", help="suffix of the source files")
    parser.add_argument("--target", default="target", help="suffix of the target files")
    parser.add_argument("--name", help="of the results; default: of the data")
    parser.add_argument("--peer-python", default=sys.executable, help="Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--steps", type=int, default=30, help="timed, in each run")
    parser.add_argument("--warmup-steps", type=int, default=6, help="not timed, in each run")
    parser.add_argument("--tokens-per-batch", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="directory")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(
            f"Other processes are busy (load {load:.1f}): do not trust the ratio. PyTorch's "
            "threads wait for each other and lose many times more than TensorFlow's.",
            file=sys.stderr,
        )
    name = args.name or (args.data.name if args.data else "generated")

    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        corpus, vocabulary_size = read_corpus(args, directory)
        settings = {
            **MODEL,
            "vocabulary_size": vocabulary_size,
            "batches": str(directory / "batches.npz"),
            "weights": str(directory / "weights.npz"),
            "warmup_steps": args.warmup_steps,
            "threads": args.threads,
            "seed": args.seed,
        }
        batches = LengthBucketedBatches(corpus, args.tokens_per_batch, seed=args.seed)
        write_batches(batches, args.warmup_steps + args.steps, settings["batches"])
        sides = {
            "ours": [sys.executable, str(HERE / "train_rnn_keras.py")],
            "theirs": [args.peer_python, str(HERE / "train_rnn_pytorch.py")],
        }
        losses = check_same_model(sides, settings)
        rates, versions = {"ours": [], "theirs": []}, {}
        for number in range(1, args.rounds + 1):
            for side, command in sides.items():
                result = run(command, {**settings, "measure": "rate"})
                rates[side].append(round(result["rate"], 1))
                versions |= result["versions"]
            print(f"round {number}: ours {rates['ours'][-1]}, theirs {rates['theirs'][-1]}")

    ours, theirs = (statistics.median(rates[side]) for side in ("ours", "theirs"))
    row = {
        "model": "rnn_seq2seq, Bahdanau attention, LSTM",
        "ours": ours,
        "theirs": theirs,
        "peer": f"PyTorch {versions['torch']}",
        "unit": "target tokens/s",
        "ratio": round(ours / theirs, 3),
        "ours_runs": rates["ours"],
        "theirs_runs": rates["theirs"],
        "losses_without_dropout": losses,
    }
    results = {
        "benchmark": "train_rnn",
        "command": " ".join(["python", *sys.argv]),
        "settings": {**MODEL, "vocabulary_size": vocabulary_size, "threads": args.threads},
        "seed": args.seed,
        "date": date(),
        "machine": machine(),
        "load_average_before": round(load, 2),
        "versions": versions,
        "rows": [row],
    }
    print(f"medians: ours {ours}, theirs {theirs} {row['unit']}; ratio {row['ratio']}")
    path = args.out / f"train_rnn-{name}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(path)


def read_corpus(args, directory):
    """The sentence pairs, and the size of their shared vocabulary."""
    if args.data is None:
        return generated_corpus(args.seed), MODEL["vocabulary_size"]
    paths = [find_file(args.data, suffix) for suffix in (args.source, args.target)]
    tokenizer = SentencePieceTokenizer.train(paths, MODEL["vocabulary_size"], "bpe")
    corpus = ParallelCorpus.encode(*paths, tokenizer, tokenizer, 256, 256, directory / "corpus")
    return corpus, tokenizer.vocabulary_size


def find_file(data, suffix):
    names = [f"train.{suffix}", f"train.{suffix}.gz"]
    found = [data / name for name in names if (data / name).exists()]
    if not found:
        raise SystemExit(f"No {names[0]} (or .gz) in {data}.")
    return found[0]


def generated_corpus(seed, num_pairs=29000):
    """Random ids with the lengths of captions in English and German, split into 8,000 pieces.

    The logarithms of the lengths are nearly normal: 2.61 +- 0.32 in English, and German longer by
    0.02 +- 0.18.
    """
    rng = np.random.default_rng(seed)
    log_lengths = rng.normal(2.61, 0.32, num_pairs)
    sides = []
    for logs in (log_lengths, log_lengths + rng.normal(0.02, 0.18, num_pairs)):
        lengths = np.clip(np.exp(logs).round().astype(int), 5, 50)
        # As in text, frequencies fall with the rank.
        ids = np.exp(rng.uniform(np.log(4), np.log(MODEL["vocabulary_size"]), lengths.sum()))
        sides.append(EncodedSentences(ids.astype("int32"), np.cumsum([0, *lengths])))
    return ParallelCorpus(*sides)


def write_batches(batches, num_steps, path):
    arrays = {}
    for step, (inputs, labels) in enumerate(islice(batches.stream(), num_steps)):
        for name, ids in {**inputs, "labels": labels}.items():
            arrays[f"{name}_{step}"] = ids
    np.savez(path, **arrays)


def check_same_model(sides, settings):
    """Losses of the first steps of each side, without dropout; stops if they are not the same."""
    # Adam's epsilon is added after the correction of the bias in PyTorch, and before it in Keras.
    # So small, it does not matter.
    settings = {**settings, "measure": "losses", "dropout": 0.0, "epsilon": 1e-12}
    losses = {side: run(command, settings)["losses"] for side, command in sides.items()}
    print("losses:", losses)
    for ours, theirs in zip(*losses.values(), strict=True):
        if not abs(ours - theirs) <= TOLERANCE:
            raise SystemExit(f"Not the same model: the losses differ by {abs(ours - theirs)}.")
    return losses


def run(command, settings):
    """What a measurement prints, run in a process of its own."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(settings["threads"]),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.run(
        [*command, json.dumps(settings)], stdout=subprocess.PIPE, text=True, env=environment
    )
    if process.returncode != 0:
        raise SystemExit(f"{command[-1]} failed; its message is above.")
    return json.loads(process.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
