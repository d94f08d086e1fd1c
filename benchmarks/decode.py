"""Translation speed of an exported ONNX file and of CTranslate2, with the same weights.

    python benchmarks/decode.py RUN --name multi30k

RUN is a run directory of `keras-attn train translation --model transformer --positions
sinusoidal`. `keras_attn.export.export_ctranslate2` writes the model for CTranslate2. Two models are
measured: the trained model, whose hypotheses end at the end token, and a model of base size with
random weights, whose hypotheses are forced to the length of the longest reference in each batch.
Both engines, ONNX Runtime and CTranslate2, read the same batches of ids (the sentences of
RUN/data/test.source, sorted by length) and return ids, with a beam width of 4. Tokenizers are not
measured.

Each measurement runs in a separate process, and the engines take turns. The machine must be idle.
Each engine is measured with one worker that uses all threads, and with several workers that use one
thread each. With several workers, CTranslate2 is also measured without MKL (`CT2_USE_MKL=0`). After
the first round, only the settings that were fastest for at least one batch size are measured again.
The result for each batch size is the median of the fastest setting.

Writes `benchmarks/results/decode-NAME.json`: tokens per second, including end tokens, if any.
`--profile` profiles ONNX Runtime on one thread instead. It writes `decode_profile-NAME.json`: the
share of the time in matrix products, the speed if only the matrix products took time, and the
shares of the slowest other operators. Profiling slows down small operators.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from machine import load_average
from onnx_session import open_session
from results_file import versions, write_results
from translation_speed import (
    agreement,
    in_batches,
    measure_side,
    num_tokens,
    read_test_set,
    spread,
)

PRECISIONS = ("float32", "int8")
MOST_OPERATORS = 6  # in a row of a profile, in addition to the matrix products
BEAM = {"beam_width": 4, "length_penalty": 1.0, "max_length": 256}


def main():
    parser = argument_parser(__doc__, threads=2, seed=1)
    parser.add_argument("run", type=Path, help="run directory of a Transformer")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument(
        "--base-sentences", type=int, default=64, help="sentences for the model of base size"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--profile", action="store_true", help="profile ONNX Runtime instead of comparing"
    )
    args = parser.parse_args()
    if args.profile:
        args.threads = args.rounds = 1
    load = load_average()
    sentences, lengths = read_test_set(args.run)
    few = (spread(each, args.base_sentences) for each in (sentences, lengths))
    batches = {"trained": batches_of(sentences, [], args), "base": batches_of(*few, args)}

    rows, found = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for model in batches:
            folder = Path(directory) / model
            folder.mkdir()
            facts = write_models(model, folder, args)
            measure = profile if args.profile else compare
            for precision in PRECISIONS:
                rows += measure(model, precision, folder, batches[model], args, found)
            rows.append(facts)
    write_results(
        args.out / f"{'decode_profile' if args.profile else 'decode'}-{args.name}.json",
        rows,
        {**versions("tensorflow", "keras", "tf2onnx"), **found},
        args.seed,
        settings=settings_of(
            args, **BEAM, sentences={"trained": len(sentences), "base": args.base_sentences}
        ),
        load_average_before=load,
    )


def batches_of(sentences, lengths, args):
    """Returns the batches of each size and their forced lengths, if `lengths` are given."""
    sizes = args.batch_sizes
    return {
        "batches": {size: in_batches(sentences, size) for size in sizes},
        "lengths": {size: [max(each) for each in in_batches(lengths, size)] for size in sizes},
    }


def write_models(model, folder, args):
    """Writes the ONNX files and the CTranslate2 model; returns times and sizes."""
    import keras_attn
    from keras_attn.export import export_ctranslate2, export_onnx
    from keras_attn.training import RunDirectory

    if model == "trained":
        translator = RunDirectory(args.run).load_model()
        encoder, decoder = translator.encoder, translator.decoder
        positions = encoder.stack.positions
        if not isinstance(positions, keras_attn.SinusoidalPositions) and not args.profile:
            raise SystemExit(
                "Expected a run with sinusoidal positions, which CTranslate2 supports. Received: "
                f"run={str(args.run)!r}. Train with --positions sinusoidal."
            )
        suppressed = None
    else:
        encoder, decoder = keras_attn.transformer_base(8000, 8000, seed=args.seed)
        suppressed = [0, 1, 2]  # also the end token, so that only the limit ends a sentence
    search = keras_attn.BeamDecoder(
        decoder,
        **{
            **BEAM,
            # Limit in the comparison by `export_onnx`. Each timed call passes its own limit.
            "max_length": 8 if suppressed else BEAM["max_length"],
        },
        length_penalty_form="average_with_end",  # the form of CTranslate2
        relative_max_length=None,
        suppressed_token_ids=suppressed,
        min_length=0 if suppressed else 1,  # CTranslate2 excludes empty hypotheses
        name="search",
    )
    translator = keras_attn.GenerationModel(encoder, search)
    facts = {"model": f"{model}, export"}
    for precision in PRECISIONS:
        path = folder / f"{precision}.onnx"
        begin = time.perf_counter()
        export_onnx(translator, path, precision=precision)
        facts[f"{precision}_seconds"] = round(time.perf_counter() - begin, 1)
        begin = time.perf_counter()
        open_session(path, args.threads)
        facts[f"{precision}_load_seconds"] = round(time.perf_counter() - begin, 2)
        facts[f"{precision}_mebibytes"] = round(path.stat().st_size / 2**20, 1)
    if args.profile:
        return facts
    export_ctranslate2(translator, folder / "ctranslate2")
    return facts


def compare(model, precision, folder, batches, args, found):
    """Measures both engines in turn. Returns a row for each batch size."""
    sides = [("onnx", 1, 1), ("onnx", args.threads, 1)]  # engine, workers, whether to use MKL
    sides += [("ctranslate2", 1, 1), ("ctranslate2", args.threads, 1)]
    sides.append(("ctranslate2", args.threads, 0))
    sides = list(dict.fromkeys(sides))
    times = {side: {size: [] for size in args.batch_sizes} for side in sides}
    hypotheses = {}
    for number in range(args.rounds):
        going_on = sides if number == 0 else {best(times, kind, size) for kind, size in cells(args)}
        for side in going_on:
            engine, workers, mkl = side
            file = f"{precision}.onnx" if engine == "onnx" else "ctranslate2"
            settings = {
                **BEAM,
                "measure": "rate",
                "model": str(folder / file),
                "precision": precision,
                "workers": workers,
                "threads": args.threads,
                "mkl": mkl,
                **batches,
            }
            result = run_engine(engine, settings, folder, args)
            found.update(result["versions"])
            for size in args.batch_sizes:
                row = result["rows"][str(size)]
                times[side][size].append(row["seconds"])
                hypotheses[side, size] = row["hypotheses"]
        print(f"{model}, {precision}: round {number + 1} of {args.rounds}", file=sys.stderr)
    return [row_of(model, precision, size, times, hypotheses) for size in args.batch_sizes]


def profile(model, precision, folder, batches, args, found):
    """Profiles ONNX Runtime. Returns a row for each batch size."""
    settings = {
        **BEAM,
        "measure": "profile",
        "model": str(folder / f"{precision}.onnx"),
        "workers": 1,
        "threads": args.threads,
        **batches,
    }
    result = run_engine("onnx", settings, folder, args)
    found.update(result["versions"])
    rows = []
    for size, row in result["rows"].items():
        seconds = row["seconds"]
        total = sum(seconds.values())
        products = {name for name in seconds if "MatMul" in name or "Gemm" in name}
        of_products = sum(seconds[name] for name in products)
        others = sorted(seconds.keys() - products, key=seconds.get, reverse=True)
        rows.append(
            {
                "model": f"{model}, {precision}, batch {size}",
                "products": round(of_products / total, 3),
                "tokens_per_second_of_products": round(
                    num_tokens(row["hypotheses"], ended=model == "trained") / of_products
                ),
                **{name: round(seconds[name] / total, 3) for name in others[:MOST_OPERATORS]},
            }
        )
    return rows


def cells(args):
    return [(kind, size) for kind in ("onnx", "ctranslate2") for size in args.batch_sizes]


def best(times, engine, size):
    """Returns the fastest settings of an engine."""
    own = [side for side in times if side[0] == engine and times[side][size]]
    return min(own, key=lambda side: statistics.median(times[side][size]))


def row_of(model, precision, size, times, hypotheses):
    row, best_of = {"model": f"{model}, {precision}, batch {size}"}, []
    for engine, name in (("onnx", "ours"), ("ctranslate2", "theirs")):
        side = best(times, engine, size)
        best_of.append(hypotheses[side, size])
        tokens = num_tokens(best_of[-1], ended=model == "trained")
        row[name] = round(tokens / statistics.median(times[side][size]))
        row[f"{name}_workers"] = side[1]
        row[f"{name}_seconds"] = [round(seconds, 3) for seconds in times[side][size]]
    row |= {"peer": "CTranslate2", "unit": "tokens/s"}
    row["ratio"] = round(row["ours"] / row["theirs"], 3)
    return row | agreement(*best_of)


def run_engine(engine, settings, folder, args):
    return measure_side(sys.executable, f"decode_{engine}.py", settings, folder, args.threads)


if __name__ == "__main__":
    main()
