"""Peak memory and time of a loss that needs no logits against one of logits.

    python benchmarks/loss_memory.py

computes the cross-entropy of tokens with label smoothing from their features and the kernel of a
vocabulary, with all gradients: by `linear_crossentropy`, and by `crossentropy_per_token` of the
product; each measurement in a process of its own, the two in turn. The memory is the largest
resident size of the process less that of the same process before the first batch of this size, so
without the libraries, the kernel and the program; the time is the median of the calls after the
first. What counts is the median of the runs.

Writes `benchmarks/results/loss_memory.json`.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

from machine import load_average
from own_process import run
from results_file import FOLDER, versions, write_results

FORMS = ("linear", "logits")
SIZES = ((128, 8000), (512, 8000), (512, 32000))  # features, classes
MEBIBYTE = 1024  # `ru_maxrss` counts KiB on Linux.


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--calls", type=int, default=4, help="of which the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one measurement, in its process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(**json.loads(args.measure))))
        return
    load = load_average()
    settings = {name: getattr(args, name) for name in ("calls", "threads", "seed")}
    rows = []
    for features, classes in SIZES:
        for tokens in args.tokens:
            size = {"features": features, "classes": classes, "tokens": tokens}
            found = {form: [] for form in FORMS}
            for _ in range(args.rounds):
                for form in FORMS:
                    found[form].append(measure_alone({**settings, **size, "form": form}))
            peaks, seconds = (
                [statistics.median(run[name] for run in found[form]) for form in FORMS]
                for name in ("peak", "seconds")
            )
            model = f"loss of {tokens:,} tokens, {features} features, {classes:,} classes"
            for (ours, theirs), unit in ((peaks, "MiB at the peak"), (seconds, "seconds")):
                rows.append(
                    {
                        "model": model,
                        "ours": round(ours, 3),
                        "theirs": round(theirs, 3),
                        "peer": "the loss of logits",
                        "unit": unit,
                        "ratio": round(ours / theirs, 3),
                    }
                )
                print(f"{model}: {ours:.3f} {unit}, of logits {theirs:.3f}")
    write_results(
        args.out / "loss_memory.json",
        rows,
        versions("keras", "tensorflow"),
        settings={**settings, "rounds": args.rounds},
        seed=args.seed,
        load_average_before=load,
    )


def measure_alone(settings):
    command = [sys.executable, __file__, "--measure", json.dumps(settings)]
    return run(command, settings["threads"])


def measure(form, features, classes, tokens, calls, seed, threads):
    """Peak memory in MiB and seconds of a call."""
    import tensorflow as tf

    from keras_attn.training import crossentropy_per_token, linear_crossentropy

    def loss(labels, inputs, kernel):
        if form == "linear":
            weights = tf.ones_like(labels, tf.float32)
            return linear_crossentropy(labels, inputs, kernel, weights, 0.1)[0]
        logits = tf.matmul(inputs, kernel, transpose_b=True)
        return tf.reduce_sum(crossentropy_per_token(labels, logits, 0.1))

    @tf.function(reduce_retracing=True)
    def call(labels, inputs, kernel):
        with tf.GradientTape() as tape:
            tape.watch([inputs, kernel])
            value = loss(labels, inputs, kernel)
        return tape.gradient(value, [inputs, kernel])

    kernel = 0.05 * tf.random.stateless_normal((classes, features), (seed, 0))

    def seconds(tokens):
        inputs = tf.random.stateless_normal((tokens, features), (seed, 1))
        labels = tf.random.stateless_uniform((tokens,), (seed, 2), 0, classes, tf.int32)
        start = time.perf_counter()
        call(labels, inputs, kernel)
        return time.perf_counter() - start

    for short in (8, 16):  # Two lengths, so that the function is traced for all.
        seconds(short)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = [seconds(tokens) for _ in range(calls)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"peak": peak / MEBIBYTE, "seconds": statistics.median(times[1:])}


if __name__ == "__main__":
    main()
