"""Time of a search step in a file whose search settings are inputs.

    python benchmarks/runtime_settings.py

Exports a Transformer and an RNN with random weights: one file with the usual run-time settings of a
beam search, and for each beam width one file without any. Every hypothesis has the same number of
tokens. Each measurement runs in a separate process, and the two files take turns. The time is the
smallest CPU time of a call, divided by the number of steps, on one thread. The results are the
medians of the rounds. `nodes` are the numbers of nodes in the body of the inner search loop.

Writes `benchmarks/results/runtime_settings.json`.
"""

import statistics
import tempfile
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

WIDTHS = (1, 2, 4)
BATCHES = (1, 8, 32)
SIDES = ("input", "fixed")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=24, help="tokens in a hypothesis")
    parser.add_argument("--calls", type=int, default=10, help="calls in a measurement")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("Transformer", "RNN"):
            export(name, folder, args)
            for width in WIDTHS:
                for batch in BATCHES:
                    what = {"folder": folder, "name": name, "width": width, "batch": batch}
                    found = measure_in_turn(__file__, SIDES, args, **what)
                    row = row_of(found, f"{name}, width {width}, batch {batch}")
                    rows.append(
                        {**row, "nodes": [num_nodes(folder, name, side, width) for side in SIDES]}
                    )
                    print(rows[-1])
    write_results(
        args.out / "runtime_settings.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime"),
        args.seed,
        settings=settings_of(args),
    )


def row_of(found, model):
    ours, theirs = (statistics.median(found[side]) for side in SIDES)
    ratios = [mine / other for mine, other in zip(*found.values(), strict=True)]
    return {
        "model": model,
        "ours": round(ours, 1),
        "unit": "CPU microseconds a step",
        "peer": "a file without run-time settings",
        "theirs": round(theirs, 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def export(name, folder, args):
    import keras
    import numpy as np

    import keras_attn
    from keras_attn.export import export_onnx

    size = args.vocabulary_size
    if name == "RNN":
        encoder, decoder = keras_attn.rnn_seq2seq(size, size, units=256, embedding_dim=256)
    else:
        sizes = {"num_layers": 4, "num_heads": 4, "embedding_dim": 128, "intermediate_dim": 512}
        encoder, decoder = keras_attn.transformer_seq2seq(size, size, **sizes)
    ids = np.array([[5, 6, 2]])
    decoder(ids, **encoder(ids))
    generator = np.random.default_rng(args.seed)
    for weight in encoder.weights + decoder.weights:
        weight.assign(generator.normal(0, 0.05, tuple(weight.shape)))
    lengths = {"max_length": args.steps, "min_length": args.steps}
    for width in WIDTHS:
        search = keras_attn.BeamDecoder(decoder, beam_width=width, **lengths)
        model = keras_attn.GenerationModel(encoder, search)
        export_onnx(model, file_of(folder, name, "fixed", width), runtime_settings=[])
    export_onnx(model, file_of(folder, name, "input", width))
    keras.backend.clear_session()


def file_of(folder, name, side, width):
    return Path(folder, f"{name}-input.onnx" if side == "input" else f"{name}-fixed-{width}.onnx")


def num_nodes(folder, name, side, width):
    """Returns the number of nodes in the innermost loop of a file."""
    import onnx

    def loops(graph):
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield attribute.g, list(loops(attribute.g))

    model = onnx.load(file_of(folder, name, side, width))
    ((_, (inner,)),) = [each for each in loops(model.graph) if each[1]]
    return len(inner[0].node)


def measure(args, side, folder, name, width, batch):
    """Returns the CPU microseconds of a search step."""
    import numpy as np
    from onnx_session import open_session

    session = open_session(file_of(folder, name, side, width), args.threads)
    generator = np.random.default_rng(args.seed)
    ids = generator.integers(3, args.vocabulary_size, (batch, 16)).astype("int32")
    ids[:, -1] = 2
    feeds = {
        "source_ids": ids,
        "max_length": np.array(args.steps, "int32"),
        "length_penalty": np.array(1, "float32"),
    }
    if side == "input":
        feeds |= {
            "beam_width": np.array(width, "int32"),
            "num_hypotheses": np.array(1, "int32"),
            "min_length": np.array(args.steps, "int32"),
            "patience": np.array(1, "float32"),
        }
    seconds = []
    for _ in range(args.calls):
        start = time.process_time()
        token_ids = session.run(["token_ids"], feeds)[0]
        seconds.append(time.process_time() - start)
    assert token_ids.shape[2] == args.steps
    return 1e6 * min(seconds) / args.steps


if __name__ == "__main__":
    main_or_measurement(main, measure)
