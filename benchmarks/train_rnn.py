"""Training speed of an RNN with Bahdanau attention in keras_attn and in PyTorch.

    python benchmarks/train_rnn.py --data DIR --source en --target de

Trains both models on the same batches of `DIR/train.en` and `DIR/train.de` (plain or `.gz`), or,
without `--data`, on generated ids with the lengths of image captions. Model, loss, clipping and
optimizer are the same. The script first checks this: with the same weights and without dropout, the
losses must be equal. Then the two libraries take turns in several rounds. Each measurement runs in
a separate process, and the result is the median. The time of keras_attn includes everything that
`compile_for_training` and `fit` do, including metrics.

Writes `benchmarks/results/train_rnn-NAME.json`.
"""

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

MODEL = {"vocabulary_size": 8000, "embedding_dim": 256, "units": 256, "dropout": 0.3}


def main():
    parser = training_parser(__doc__)
    parser.add_argument("--steps", type=int, default=30, help="timed steps of each run")
    parser.add_argument(
        "--warmup-steps", type=int, default=6, help="steps of each run before the timing"
    )
    args = parser.parse_args()
    load = load_average()
    sides = {
        "ours": [sys.executable, str(HERE / "train_rnn_keras.py")],
        "pytorch": [args.peer_python, str(HERE / "train_rnn_pytorch.py")],
    }
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        corpus, vocabulary_size = read_corpus(args, MODEL["vocabulary_size"], directory)
        model = {**MODEL, "vocabulary_size": vocabulary_size}
        settings = {**model, **side_settings(args, directory)}
        write_batches(corpus, args, args.warmup_steps + args.steps, settings["batches"])
        losses = check_same_model(sides, settings)
        rates, versions = time_in_turn(sides, settings, args.rounds)

    name = "rnn_seq2seq, Bahdanau attention, LSTM"
    row = comparison(name, f"PyTorch {versions['torch']}", rates, losses, "pytorch")
    write_results(
        results_path("train_rnn", args),
        [row],
        versions,
        args.seed,
        settings=settings_of(args, **model, **TRAINING),
        load_average_before=load,
    )


if __name__ == "__main__":
    main()
