"""Time of a search in a LiteRT file, compared with the ONNX file of the same model.

    python benchmarks/decode_litert.py
    python benchmarks/decode_litert.py --run-dirs RUN ... --threads 2 --name decode_litert-trained

Exports a Transformer (128 features, 4 + 4 layers) and a recurrent translator (256 units, Bahdanau
attention) with random weights and 8,000 ids, in float32 and int8. Each measurement loads a file in
a separate process, and translates the same source of 12 ids `--sentences` times with a beam width
of 4. The end token is suppressed, so that all hypotheses have `--length` tokens. Both engines use
one thread. The engines take turns, and the results are medians. The machine must be idle.

With `--run-dirs`, the benchmark measures trained translators instead. The runtime translates the
first `--sentences` lines of `data/test.source` in the run directory, one at a time, and the
hypotheses end at their end tokens.

Writes a file in `benchmarks/results/`: milliseconds per sentence, MiB of the file and
seconds to load it.
"""

import itertools
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import keras_attn_runtime
import numpy as np
from arguments import argument_parser, settings_of
from machine import load_average
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

VOCABULARY_SIZE = 8000
PRECISIONS = ("float32", "int8")
ENGINES = {"litert": "tflite", "onnx": "onnx"}
SOURCE_LENGTH = 12


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--length", type=int, default=24, help="tokens of each hypothesis")
    parser.add_argument("--sentences", type=int, default=50, help="translations in a measurement")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--run-dirs", nargs="+", default=[], help="trained translators")
    parser.add_argument("--name", default="decode_litert", help="name of the results file")
    args = parser.parse_args()
    load, rows = load_average(), []
    with tempfile.TemporaryDirectory() as folder:
        for name, exports, texts in translators(args):
            for precision in PRECISIONS:
                for export, file in zip(exports, ENGINES.values(), strict=True):
                    export(Path(folder) / f"model.{file}", precision=precision)
                found = measure_in_turn(__file__, list(ENGINES), args, folder=folder, texts=texts)
                rows.append(row_of(f"{name}, {precision}", found))
    write_results(
        args.out / f"{args.name}.json",
        rows,
        versions("tensorflow", "keras", "ai-edge-litert", "onnxruntime"),
        args.seed,
        settings=settings_of(args),
        load_average_before=load,
    )


def translators(args):
    """Yields the name of each translator, its LiteRT and ONNX exports, and texts or `None`."""
    from keras_attn.export import export_litert, export_onnx
    from keras_attn.files import read_lines
    from keras_attn.training import RunDirectory

    fixed = {"runtime_settings": []}
    for path in args.run_dirs:
        run = RunDirectory(path)
        model, sides = run.load_model(), ("source_tokenizer", "target_tokenizer")
        tokenizers = {side: getattr(run, side) for side in sides}
        exports = [
            partial(export, model, **tokenizers, **fixed) for export in (export_litert, export_onnx)
        ]
        texts = list(
            itertools.islice(read_lines(Path(path) / "data" / "test.source"), args.sentences)
        )
        yield Path(path).name, exports, texts
    if not args.run_dirs:
        for name, model in models(args.seed).items():
            exports = [partial(export, model, **fixed) for export in (export_litert, export_onnx)]
            yield name, exports, None


def models(seed):
    """Returns a dict of translators whose hypotheses end only at the length limit."""
    import keras_attn

    parts = {
        "Transformer": keras_attn.transformer_seq2seq(
            VOCABULARY_SIZE,
            VOCABULARY_SIZE,
            num_layers=4,
            num_heads=4,
            embedding_dim=128,
            intermediate_dim=512,
            seed=seed,
        ),
        "RNN": keras_attn.rnn_seq2seq(
            VOCABULARY_SIZE, VOCABULARY_SIZE, embedding_dim=256, units=256, seed=seed
        ),
    }
    return {
        name: keras_attn.GenerationModel(
            encoder,
            keras_attn.BeamDecoder(
                decoder,
                beam_width=4,
                max_length=8,  # limit in the comparison by the export
                relative_max_length=None,
                suppressed_token_ids=[0, 1, 2],
            ),
        )
        for name, (encoder, decoder) in parts.items()
    }


def measure(args, side, folder, texts):
    """Returns the milliseconds per sentence, the size of the file and the seconds to load it."""
    path = Path(folder) / f"model.{ENGINES[side]}"
    begin = time.perf_counter()
    if texts:
        run = keras_attn_runtime.Translator(path, num_threads=args.threads)
        inputs = [[text] for text in texts]
    else:
        run, inputs = open_file(path, args.threads), [random_inputs(args)] * args.sentences
    load_seconds = time.perf_counter() - begin
    run(inputs[0])
    begin = time.perf_counter()
    for each in inputs:
        run(each)
    milliseconds = 1000 * (time.perf_counter() - begin) / len(inputs)
    size = path.stat().st_size / 2**20
    return {"milliseconds": milliseconds, "load_seconds": load_seconds, "mebibytes": size}


def random_inputs(args):
    """Returns the inputs of a file for one source of random ids."""
    ids = np.random.default_rng(args.seed).integers(4, VOCABULARY_SIZE, (1, SOURCE_LENGTH))
    return {
        "source_ids": ids.astype("int32"),
        "max_length": np.array(args.length, "int32"),
        "length_penalty": np.array(1.0, "float32"),
    }


def open_file(path, threads):
    """Returns a function that runs a file on a dict of arrays."""
    if path.suffix == ".onnx":
        from onnx_session import open_session

        session = open_session(path, threads)
        return lambda inputs: session.run(None, inputs)
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path), num_threads=threads).get_signature_runner()
    return lambda inputs: runner(**inputs)


def row_of(model, found):
    row = {"model": model, "unit": "ms a sentence", "peer": "the ONNX file"}
    for name, side in (("ours", "litert"), ("theirs", "onnx")):
        times = [each["milliseconds"] for each in found[side]]
        row[name] = round(statistics.median(times), 2)
        row[f"{name}_runs"] = [round(each, 2) for each in times]
        row[f"{name}_load_seconds"] = round(
            statistics.median(each["load_seconds"] for each in found[side]), 3
        )
        row[f"{name}_mebibytes"] = round(found[side][0]["mebibytes"], 1)
    row["ratio"] = round(row["ours"] / row["theirs"], 3)
    return row


if __name__ == "__main__":
    main_or_measurement(main, measure)
