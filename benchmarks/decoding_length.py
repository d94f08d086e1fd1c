"""Time of a decoding step in ONNX Runtime by output length, with and without key-value cache.

    python benchmarks/decoding_length.py

Exports the same Transformer twice: with its key-value cache, and with a decoder without cache,
which computes all previous tokens again in each step. The weights are random, and the model never
emits the end token. Both files compute the keys and values of the source once. The cache has blocks
of 32 steps. Search, loop and file format are the same. Each round opens both files in turn, each in
a separate process. The time of a step is the time of the whole call divided by the number of steps;
the result is the median of the rounds. A measurement without cache is skipped if it would take
longer than `--longest` seconds, assuming that the time grows with the square of the length.

Writes `benchmarks/results/decoding_length.json`.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from arguments import argument_parser, settings_of
from machine import load_average
from onnx_session import open_session
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

VOCABULARY_SIZE = 8000
SIZES = ("tiny", "base")
FORMS = ("cached", "recomputed")


def main():
    parser = argument_parser(__doc__, threads=2, seed=1)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128, 256, 512])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--beam-width", type=int, default=1, help="1: greedy search")
    parser.add_argument(
        "--cache-block-size", type=int, default=32, help="steps of a block; 0: one block"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--longest", type=float, default=30, help="maximum seconds of a measurement without cache"
    )
    args = parser.parse_args()
    load = load_average()

    rows = []
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as directory:
            for form in FORMS:
                write_translator(Path(directory) / f"{form}.onnx", size, form, args)
            milliseconds = measure_in_turn(__file__, FORMS, args, directory=directory)
        rows += size_rows(size, milliseconds, args)
    name = "decoding_length" if args.beam_width == 1 else f"decoding_length-beam{args.beam_width}"
    write_results(
        args.out / f"{name}.json",
        rows,
        versions("tensorflow", "keras", "tf2onnx", "onnxruntime"),
        args.seed,
        settings=settings_of(args, vocabulary_size=VOCABULARY_SIZE),
        load_average_before=load,
    )


def write_translator(path, size, form, args):
    """Exports a model whose hypotheses end only at the length limit."""
    import keras_attn
    from keras_attn.export import export_onnx

    make = getattr(keras_attn, f"transformer_{size}")
    encoder, decoder = make(VOCABULARY_SIZE, VOCABULARY_SIZE, seed=args.seed)
    arguments = {
        # Limit in the comparison by `export_onnx`. Each timed call passes its own limit.
        "max_length": 8,
        "relative_max_length": None,
        "suppressed_token_ids": [0, 1, 2],  # padding, start and end
        "name": "search",
    }
    decoder.cache_block_size = args.cache_block_size or None
    if form == "recomputed":
        decoder = without_cache(decoder)
    if args.beam_width == 1:
        search = keras_attn.GreedyDecoder(decoder, **arguments)
    else:
        search = keras_attn.BeamDecoder(decoder, beam_width=args.beam_width, **arguments)
    export_onnx(keras_attn.GenerationModel(encoder, search), path, runtime_settings=[])


def without_cache(decoder):
    """Returns a decoder with the weights of `decoder`. Its state contains only the tokens."""
    import keras
    from keras import ops

    from keras_attn import StepDecoder

    class RecomputingDecoder(StepDecoder):
        def __init__(self, decoder):
            super().__init__()
            self.decoder = decoder
            self.embedding = decoder.embedding

        def build(self, *shapes):
            self.decoder.build(*shapes)

        def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
            return self.decoder.prepare_memory(encoder_outputs, encoder_mask)

        def initial_state(self, memory, beam_width=1, alignments=False, max_length=256):
            mask = memory["blocks"][0]["mask"]  # (B, 1, S)
            token_ids = ops.zeros((ops.shape(mask)[0] * beam_width, 1), dtype="int32")
            # Select no columns with computed indices. If the size 0 were known, TensorFlow would
            # not allow the size to grow in the loop.
            (nothing,) = ops.nonzero(ops.zeros((1,), dtype="bool"))
            return {"token_ids": ops.take(token_ids, nothing, axis=1)}  # (B*K, 0)

        def step(self, token_ids, state, memory):
            token_ids = ops.concatenate([state["token_ids"], token_ids[:, None]], axis=1)
            vectors = self.decoder.stack.embed(token_ids)  # (B*K, T, D)
            for block, block_memory in zip(
                self.decoder.stack.blocks, memory["blocks"], strict=True
            ):
                vectors, _ = block.run(vectors, block_memory)
            outputs = self.decoder.stack.normalize(vectors)[:, -1]  # (B*K, D)
            return self.decoder.project(outputs), {"token_ids": token_ids}

        def get_config(self):  # the exporter calls this method
            return {
                **super().get_config(),
                "decoder": keras.saving.serialize_keras_object(self.decoder),
            }

    return RecomputingDecoder(decoder)


def measure(args, form, directory):
    """Returns the milliseconds per step, by batch size and length."""
    session = open_session(Path(directory) / f"{form}.onnx", args.threads)
    generator = np.random.default_rng(args.seed)
    found = {}
    for batch_size in args.batch_sizes:
        shape = (batch_size, args.source_length)
        source_ids = generator.integers(4, VOCABULARY_SIZE, shape).astype("int32")

        def translate(length, source_ids=source_ids):
            inputs = {
                "source_ids": source_ids,
                "max_length": np.array(length, "int32"),
                "length_penalty": np.array(1, "float32"),
            }
            started = time.perf_counter()
            (lengths,) = session.run(["lengths"], inputs)
            if not (lengths == length).all():
                raise SystemExit(
                    f"Expected {length} tokens each. Received: lengths={lengths.tolist()}."
                )
            return time.perf_counter() - started

        translate(args.lengths[0])  # warm-up
        found[batch_size], seconds, last = {}, 0.0, args.lengths[0]
        for length in args.lengths:
            if form == "recomputed" and seconds * (length / last) ** 2 > args.longest:
                break
            seconds, last = translate(length), length
            found[batch_size][length] = 1000 * seconds / length
    return found


def size_rows(size, milliseconds, args):
    """Returns the rows of one model."""

    def median(form, batch_size, length):
        runs = [found[str(batch_size)].get(str(length)) for found in milliseconds[form]]
        return None if None in runs else round(statistics.median(runs), 3)

    rows = []
    for batch_size in args.batch_sizes:
        shortest = median("cached", batch_size, args.lengths[0])
        for length in args.lengths:
            ours = median("cached", batch_size, length)
            theirs = median("recomputed", batch_size, length)
            row = {
                "model": f"transformer_{size}, batch {batch_size}, {length} tokens",
                "ours": ours,
                "unit": "ms a step",
                "times_shortest": round(ours / shortest, 2),
            }
            if theirs is not None:
                row |= {"theirs": theirs, "peer": "without cache", "ratio": round(ours / theirs, 3)}
            rows.append(row)
            print(json.dumps(row))
    return rows


if __name__ == "__main__":
    main_or_measurement(main, measure)
