"""Measures the memory of the runtime's command for many lines, and checks its output.

    python benchmarks/runtime_stress.py build/demo/translator.onnx --lines 1000000

Writes dates (see `generate_dates`) to a pipe to `python -m keras_attn_runtime`, which runs in a
separate process, and checks each output line. The lines are sampled at random from a set of
distinct lines, which a `Translator` in this process translates for comparison. The resident memory
of the command is read each second (VmRSS and VmHWM in /proc, so only on Linux).

Writes `benchmarks/results/runtime_stress.json`. The exit status is 1 if a line is wrong.
"""

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from keras_attn_runtime import Translator
from machine import load_average
from results_file import versions, write_results

SHARES = (0.1, 0.5, 1.0)  # fractions of the lines at which the memory is reported
COURSE = 60  # number of memory samples in the results


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("model", help="ONNX file of a date translator")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--distinct", type=int, default=20_000, help="number of distinct lines")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--interval", type=float, default=1, help="seconds between samples")
    args = parser.parse_args()
    load = load_average()

    expected = translations(args)
    row, facts = stress(args, list(expected), expected)
    write_results(
        args.out / "runtime_stress.json",
        [row],
        versions("numpy", "onnxruntime", "sentencepiece"),
        args.seed,
        settings=settings_of(args, distinct_lines=len(expected)),
        load_average_before=load,
        **facts,
    )
    return int(row["lines_out"] != args.lines or row["wrong_lines"] > 0)


def translations(args):
    """Returns a dict of the distinct lines and their translations by the `Translator`."""
    from keras_attn.text import generate_dates

    sources, _ = generate_dates(args.distinct, args.seed, "test")
    sources = sorted(set(sources))
    translator = Translator(args.model, num_threads=args.threads)
    return dict(zip(sources, translator(sources, batch_size=args.batch_size), strict=True))


def drawn(sources, args):
    """Yields random lines without storing all of them. Each call yields the same lines."""
    generator = random.Random(args.seed)
    for _ in range(args.lines):
        yield generator.choice(sources)


def stress(args, sources, expected):
    """Runs the command. Returns the row of the results and further entries."""
    options = ["--threads", str(args.threads), "--batch-size", str(args.batch_size)]
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_attn_runtime", args.model, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    started = time.perf_counter()
    threading.Thread(target=feed, args=(process.stdin, sources, args), daemon=True).start()
    course, lines_out, wrong = [], 0, []
    due = time.perf_counter()
    # `process.stdout` must be the second argument: otherwise `zip` would read an extra line
    # and drop it.
    for source, line in zip(drawn(sources, args), process.stdout, strict=False):
        lines_out += 1
        if line != expected[source].encode() + b"\n":
            wrong.append({"line": lines_out, "source": source, "received": line.decode()})
        if time.perf_counter() >= due and process.poll() is None:
            due = time.perf_counter() + args.interval
            course.append((lines_out, *memory(process.pid)))
            if len(course) % 30 == 0:
                print(f"{lines_out} lines, {course[-1][1]:.1f} MiB", file=sys.stderr)
    lines_out += sum(1 for _ in process.stdout)  # lines in excess of the input
    seconds = time.perf_counter() - started
    if process.wait() != 0:
        raise SystemExit(f"The command ended with status {process.returncode}.")

    row = {"model": f"{Path(args.model).name}, {args.lines} lines", "lines_out": lines_out}
    row |= {"wrong_lines": len(wrong), "lines_per_second": round(lines_out / seconds, 1)}
    for share in SHARES:
        _, resident, _ = min(course, key=lambda sample: abs(sample[0] - share * args.lines))
        row[f"mib_at_{share:.0%}"] = round(resident, 1)
    row["mib_at_the_peak"] = round(max(peak for _, _, peak in course), 1)
    print(json.dumps(row))
    step = -(-len(course) // COURSE)
    return row, {
        "seconds": round(seconds, 1),
        "wrong": wrong[:20],
        "course": [
            {"lines": lines, "mib": round(resident, 1)} for lines, resident, _ in course[::step]
        ],
    }


def feed(stream, sources, args):
    """Writes all lines. Blocks while the command does not read."""
    try:
        with stream:
            for source in drawn(sources, args):
                stream.write(source.encode() + b"\n")
    except BrokenPipeError:
        pass  # The command has ended; the caller checks its exit status.


def memory(pid):
    """Returns the current and the peak resident memory of a process in MiB."""
    entries = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").open())
    return [int(entries[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]  # given in KiB


if __name__ == "__main__":
    sys.exit(main())
