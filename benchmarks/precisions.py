"""Size, BLEU and CPU time of a translator in each precision of an ONNX file.

    python benchmarks/precisions.py RUN --name multi30k-rnn

RUN is a run directory of `keras-attn train translation`. Exports its model in each precision, and
translates the first sentences of RUN/data/test.source, sorted by length, in batches of several
sizes. Each measurement runs in a separate process on one thread, and the files take turns. The time
is the CPU time of a token of the best hypotheses, the median of the rounds. `equal` is the fraction
of the sentences with the same translation as float32. BLEU is computed with batches of the largest
size.

Writes `benchmarks/results/precisions-NAME.json`.
"""

import itertools
import statistics
import tempfile
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

PRECISIONS = ("float32", "int8", "int8-rows", "int4")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("run", type=Path, help="run directory of a translator")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = export(folder, args)
        found = measure_in_turn(__file__, PRECISIONS, args, folder=folder)
    references = lines(args, "target")
    rows = [row for name in PRECISIONS for row in rows_of(name, found, sizes, references, args)]
    write_results(
        args.out / f"precisions-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime", "sacrebleu"),
        args.seed,
        settings=settings_of(args),
    )


def export(folder, args):
    """Writes a file in each precision. Returns their sizes in mebibytes."""
    from keras_attn.export import export_onnx
    from keras_attn.training import RunDirectory

    run = RunDirectory(args.run)
    model, sizes = run.load_model("generation"), {}
    for precision in PRECISIONS:
        path = Path(folder, f"{precision}.onnx")
        report = export_onnx(
            model, path, run.source_tokenizer, run.target_tokenizer, precision=precision
        )
        print(report)
        sizes[precision] = round(path.stat().st_size / 2**20, 1)
    return sizes


def rows_of(precision, found, sizes, references, args):
    """Yields a row about the file, and one for each batch size."""
    import sacrebleu

    texts, baseline = found[precision][0]["texts"], found["float32"][0]["texts"]
    equal = statistics.mean(a == b for a, b in zip(texts, baseline, strict=True))
    yield {
        "model": f"{args.name}, {precision}",
        "split": "test",
        "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
        "equal": round(equal, 3),
        "mebibytes": sizes[precision],
    }
    for index, size in enumerate(args.batch_sizes):
        ours, theirs = (
            [each["microseconds"][index] for each in found[side]] for side in (precision, "float32")
        )
        row = {
            "model": f"{args.name}, {precision}, batch {size}",
            "ours": round(statistics.median(ours), 1),
            "unit": "CPU microseconds a token",
        }
        if precision != "float32":
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            row |= {
                "peer": "the float32 file",
                "theirs": round(statistics.median(theirs), 1),
                "ratio": round(statistics.median(ratios), 3),
                "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
            }
        yield row


def measure(args, side, folder):
    """Returns the CPU microseconds of a token for each batch size, and the translations."""
    from keras_attn_runtime import Translator

    translator = Translator(Path(folder, f"{side}.onnx"), num_threads=args.threads)
    sources = lines(args, "source")
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    in_order = [sources[index] for index in order]
    times, results = [], []
    for size in args.batch_sizes:
        translator.translate(in_order[: 4 * size], batch_size=size)
        start = time.process_time()
        results = translator.translate(in_order, batch_size=size)
        seconds = time.process_time() - start
        tokens = sum(len(each.hypotheses[0].token_ids) for each in results)
        times.append(1e6 * seconds / tokens)
    texts = dict(zip(order, (each.hypotheses[0].text for each in results), strict=True))
    return {"microseconds": times, "texts": [texts[index] for index in range(len(sources))]}


def lines(args, kind):
    from keras_attn.files import read_lines

    found = read_lines(Path(args.run) / "data" / f"test.{kind}")
    return list(itertools.islice(found, args.sentences))


if __name__ == "__main__":
    main_or_measurement(main, measure)
