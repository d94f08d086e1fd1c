"""Translation speed of a recurrent decoder: ONNX, SavedModel and PyTorch.

    python benchmarks/decode_rnn.py RUN --name multi30k-bahdanau --peer-python PYTHON

RUN is a run directory of `keras-attn train translation --data DIR` with Bahdanau or Luong
attention and default values of the other options. The script exports the model as ONNX and as
SavedModel, and writes the weights for PyTorch, which runs the same search in a Python loop. These
three sides read the same batches of ids (the sentences of RUN/data/test.source, sorted by length)
and return ids. Tokenizers are not measured. Each side translates one batch at a time, with all
threads.

Before the timing, all sides translate all sentences. The script stops if less than 99 % of the best
hypotheses are equal. For the timing, the sides take turns. Each measurement runs in a separate
process, and the result is the median of the rounds. The machine must be idle.

Writes `benchmarks/results/decode_rnn-NAME.json`: tokens per second, including end tokens.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from arguments import argument_parser, settings_of
from machine import load_average
from results_file import versions, write_results
from torch_seq2seq_weights import weights_for_pytorch
from translation_speed import (
    agreement,
    in_batches,
    measure_side,
    num_tokens,
    read_test_set,
    spread,
)

import keras_attn
from keras_attn.export import export_onnx, export_saved_model
from keras_attn.training import RunDirectory

SEARCH = {
    "beam_width": 4,
    "stop": "collected",
    "max_length": 256,
    "relative_max_length": (2, 10),
    "length_penalty": 1.0,
}
# Options that the PyTorch model supports.
NEEDED = {"layers": 1, "cell": "lstm", "no_input_feeding": False, "separate_vocabularies": False}
PEERS = {"saved_model": "SavedModel", "pytorch": "PyTorch"}
# Minimum fraction of sentences that all sides must translate equally.
SAME = 0.99


def main():
    parser = argument_parser(__doc__, threads=2)
    parser.add_argument("run", type=Path, help="run directory of a model with attention")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--peer-python", default=sys.executable, help="Python with PyTorch")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument(
        "--sentences", type=int, help="number of sentences, of evenly spaced lengths; default: all"
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = load_average()
    training = json.loads((args.run / "history.json").read_text())["arguments"]
    check_supported(training)
    sentences, _ = read_test_set(args.run)
    if args.sentences is not None:
        sentences = spread(sentences, args.sentences)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        settings = {
            **SEARCH,
            **write_models(folder, args.run),
            "measure": "rate",
            "attention": training["attention"],
            "threads": args.threads,
            "workers": 1,
            "lengths": {},
        }
        sides = {
            "onnx": (sys.executable, "decode_onnx.py"),
            "saved_model": (sys.executable, "decode_rnn_saved_model.py"),
            "pytorch": (args.peer_python, "decode_rnn_pytorch.py"),
        }

        def measure(side, batch_sizes):
            batches = {size: in_batches(sentences, size) for size in batch_sizes}
            python, script = sides[side]
            settings_of_side = {**settings, "batches": batches}
            return measure_side(python, script, settings_of_side, folder, args.threads)

        check_same_translations(sides, measure, max(args.batch_sizes))
        seconds, hypotheses, found = time_in_turn(sides, measure, args)

    rows, model = [], f"{training['attention'].title()} attention"
    for peer in PEERS:
        rows += comparisons(model, peer, seconds, hypotheses, found)
    write_results(
        args.out / f"decode_rnn-{args.name}.json",
        rows,
        {**versions("keras", "tf2onnx"), **found},
        training["seed"],
        settings=settings_of(args, **SEARCH, sentences=len(sentences)),
        load_average_before=load,
    )


def check_supported(training):
    differing = {name: training[name] for name in NEEDED if training[name] != NEEDED[name]}
    if differing or training["attention"] == "none":
        raise SystemExit(
            f"Expected a run with attention and {NEEDED}. Received: "
            f"attention={training['attention']}, {differing}."
        )


def write_models(folder, run_dir):
    """Writes the files of all sides. Returns their names and the sizes of the model."""
    translator = RunDirectory(run_dir).load_model()
    encoder, decoder = translator.encoder, translator.decoder
    search = keras_attn.BeamDecoder(decoder, **SEARCH, name="search")
    translator = keras_attn.GenerationModel(encoder, search)
    paths = {"model": "translator.onnx", "saved_model": "saved_model", "weights": "weights.npz"}
    paths = {name: str(folder / file) for name, file in paths.items()}
    export_onnx(translator, paths["model"])
    export_saved_model(translator, paths["saved_model"], runtime_settings=[])
    np.savez(paths["weights"], **weights_for_pytorch(encoder, decoder))
    vocabulary_size, embedding_dim = encoder.embedding.embeddings.shape
    sizes = {"vocabulary_size": vocabulary_size, "embedding_dim": embedding_dim}
    return {**paths, "sizes": {**sizes, "units": decoder.cell.cell.units}}


def check_same_translations(sides, measure, batch_size):
    """Stops the benchmark if the translations of the sides differ."""
    results = {side: measure(side, [batch_size])["rows"][str(batch_size)] for side in sides}
    for peer in PEERS:
        found = agreement(results["onnx"]["hypotheses"], results[peer]["hypotheses"])
        print(f"{PEERS[peer]}:", found)
        if found["equal_hypotheses"] < SAME:
            raise SystemExit(
                f"Expected {PEERS[peer]} to translate {SAME:.0%} of the sentences equally. "
                f"Received: equal_hypotheses={found['equal_hypotheses']}."
            )


def time_in_turn(sides, measure, args):
    """Returns the seconds of all rounds, the hypotheses by side and batch size, and versions."""
    cells = [(side, size) for side in sides for size in args.batch_sizes]
    seconds, hypotheses, found = {cell: [] for cell in cells}, {}, {}
    for number in range(1, args.rounds + 1):
        for side in sides:
            result = measure(side, args.batch_sizes)
            found |= result["versions"]
            for size in args.batch_sizes:
                row = result["rows"][str(size)]
                seconds[side, size].append(round(row["seconds"], 3))
                hypotheses[side, size] = row["hypotheses"]
        times = ", ".join(f"{side} {size}: {seconds[side, size][-1]} s" for side, size in cells)
        print(f"round {number}: {times}")
    return seconds, hypotheses, found


def comparisons(model, peer, seconds, hypotheses, found):
    """Returns a row for each batch size, and a row with the mean of the ratios."""
    rows, ratios = [], []
    name = f"PyTorch {found['torch']}" if peer == "pytorch" else PEERS[peer]
    for size in (size for side, size in seconds if side == peer):
        ours, theirs = (
            num_tokens(hypotheses[cell]) / statistics.median(seconds[cell])
            for cell in (("onnx", size), (peer, size))
        )
        ratios.append(ours / theirs)
        row = {
            "model": f"{model}, batch {size}",
            "ours": round(ours),
            "theirs": round(theirs),
            "peer": name,
            "unit": "tokens/s",
            "ratio": round(ratios[-1], 3),
            "ours_seconds": seconds["onnx", size],
            "theirs_seconds": seconds[peer, size],
            **agreement(hypotheses["onnx", size], hypotheses[peer, size]),
        }
        rows.append(row)
        print(f"{row['model']}: ours {row['ours']}, {name} {row['theirs']} tokens/s")
    mean = round(statistics.geometric_mean(ratios), 3)
    print(f"geometric mean of the ratios to {name}: {mean}")
    return [*rows, {"model": f"{model}, against {name}", "geometric_mean": mean}]


if __name__ == "__main__":
    main()
