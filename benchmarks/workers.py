"""Memory and speed of the runtime's workers, waiting times of single sentences, and the cold start.

    python benchmarks/workers.py model.onnx --sentences test.en --name NAME

Every measurement runs in a separate process, with one thread a worker, and the alternatives take
turns. Workers that share their weights are compared with workers that each have a copy of them,
which the runtime uses if it cannot write a temporary file. The rows contain:

- the resident memory (its proportional share, from /proc, so only on Linux) of 1, 2 and 4 workers
  that share their weights over the memory before the file is loaded: after loading, and after 32
  sentences a worker;
- sentences per second of two workers, for each batch size;
- the median and the 99th percentile of the times of single sentences, one after the other;
- the CPU time and the time until `keras-attn-runtime translate` has translated one line.

Writes `benchmarks/results/workers-NAME.json`.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from machine import load_average
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

SIDES = ("shared", "copies")
WORKERS = (1, 2, 4)


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("model", type=Path, help="ONNX file of a translator with tokenizers")
    parser.add_argument("--sentences", type=Path, required=True, help="one sentence in each line")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--count", type=int, default=1000, help="number of sentences")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    load = load_average()
    found = measure_in_turn(__file__, ["start", "single"], args, what="waiting")
    start, single = (
        {name: round(statistics.median(each[name] for each in rounds), 2) for name in rounds[0]}
        for rounds in found.values()
    )
    rows = [{"model": "one line, command", **start}, {"model": "single sentences", **single}]
    for number in WORKERS:
        found = measure_in_turn(__file__, SIDES, args, what="memory", number=number)
        workers = "1 worker" if number == 1 else f"{number} workers"
        rows.append(row_of(found, f"{workers}, loaded", "MiB", 0))
        rows.append(row_of(found, f"{workers}, after 32 sentences each", "MiB", 1))
    for size in args.batch_sizes:
        found = measure_in_turn(__file__, SIDES, args, what="speed", number=size)
        rows.append(row_of(found, f"2 workers, batch {size}", "sentences/s"))
    write_results(
        args.out / f"workers-{args.name}.json",
        rows,
        versions("onnxruntime"),
        args.seed,
        settings=settings_of(args),
        load_average_before=load,
    )


def row_of(found, model, unit, index=0):
    values = {side: [each[index] for each in rounds] for side, rounds in found.items()}
    ours, theirs = (statistics.median(values[side]) for side in SIDES)
    ratios = [mine / other for mine, other in zip(*values.values(), strict=True)]
    return {
        "model": model,
        "ours": round(ours, 1),
        "unit": unit,
        "peer": "a copy of the weights for each worker",
        "theirs": round(theirs, 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def measure(args, side, what, number=1):
    sentences = Path(args.sentences).read_text(encoding="utf-8").splitlines()[: args.count]
    if side == "start":
        return measure_start(args, sentences[0])
    from keras_attn_runtime import Translator

    if side == "copies":
        tempfile.tempdir = "/missing"
    before = memory()
    workers = 2 if what == "speed" else number
    translator = Translator(args.model, num_threads=args.threads, num_workers=workers)
    if what == "memory":
        loaded = memory() - before
        translator.translate((sentences * 32)[: 32 * number], batch_size=32)
        return loaded, memory() - before
    if what == "speed":
        translator.translate(sentences[: 4 * number], batch_size=number)
        begin = time.perf_counter()
        translator.translate(sentences, batch_size=number)
        return [len(sentences) / (time.perf_counter() - begin)]
    times = []
    for sentence in sentences:
        begin = time.perf_counter()
        translator.translate([sentence])
        times.append(1000 * (time.perf_counter() - begin))
    hundredths = statistics.quantiles(times, n=100)
    return {"median_ms": hundredths[49], "percentile_99_ms": hundredths[98]}


def measure_start(args, sentence):
    """Returns the times of the command for one line."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "keras_attn_runtime", "translate", args.model],
        input=f"{sentence}\n".encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }


def memory():
    """Returns the memory of this process in MiB, where shared pages count proportionally."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("Expected a line Pss in /proc/self/smaps_rollup.")


if __name__ == "__main__":
    main_or_measurement(main, measure)
