"""Time and memory of attention to a window against attention to all, over the source length.

    python benchmarks/local_attention.py

compares `LocalAttention(LuongAttention())` with `LuongAttention()`: a decoding step (one query of
each sentence, the memory prepared), 64 queries with the memory prepared, the same with its
preparation, and a training step of that, with the gradients of weights, queries and values. Window
and queries do not grow with the source. What does grow with it, besides the preparation, are the
mask and the weights that are returned, a number for each position.

The time is that of the fastest call after the first. The memory is the largest resident size of the
process less that of the same process before the first long source, with the lengths in rising order
in a process for each form and each task. The slopes are those of straight lines through the
logarithms of the times from `--slope-from` positions on: 0 does not depend on the length, 1 grows
with it.

Writes `benchmarks/results/local_attention.json`.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from machine import load_average
from own_process import run
from results_file import FOLDER, versions, write_results

TASKS = {
    "step": "one query",
    "attend": "64 queries",
    "forward": "64 queries and preparation",
    "training": "training step of 64 queries",
}
MEBIBYTE = 1024  # `ru_maxrss` counts KiB on Linux.


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    lengths = [64, 128, 256, 512, 1024, 2048, 4096]
    parser.add_argument("--lengths", type=int, nargs="+", default=lengths, help="rising")
    parser.add_argument("--slope-from", type=int, default=512, help="shorter ones do not count")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--window", type=int, default=10, help="half of it")
    parser.add_argument("--calls", type=int, default=20, help="of which the first is not timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one measurement, in its process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(**json.loads(args.measure))))
        return
    load = load_average()
    names = ("lengths", "batch", "features", "window", "calls", "threads", "seed")
    settings = {name: getattr(args, name) for name in names}

    rows, slopes = [], {}
    for task, what in TASKS.items():
        ours, theirs = (
            measure_alone({**settings, "task": task, "form": form}) for form in ("local", "all")
        )
        for one, other in zip(ours, theirs, strict=True):
            row = {
                "model": f"local-p, {what}, {one['length']} positions",
                "ours": round(one["milliseconds"], 4),
                "theirs": round(other["milliseconds"], 4),
                "peer": "attention to all",
                "unit": "ms",
                "ratio": round(one["milliseconds"] / other["milliseconds"], 3),
                "ours_mebibytes": round(one["mebibytes"], 1),
                "theirs_mebibytes": round(other["mebibytes"], 1),
            }
            rows.append(row)
            print(json.dumps(row))
        slopes[f"{task}_local"] = slope(ours, args.slope_from)
        slopes[f"{task}_all"] = slope(theirs, args.slope_from)
    rows.append({"model": f"slopes from {args.slope_from} positions on", **slopes})
    print(json.dumps(rows[-1]))

    write_results(
        args.out / "local_attention.json",
        rows,
        versions("keras", "tensorflow"),
        settings=settings,
        seed=args.seed,
        load_average_before=load,
    )


def slope(measured, start):
    points = [(each["length"], each["milliseconds"]) for each in measured]
    long = np.log([point for point in points if point[0] >= start])  # (lengths, 2)
    return round(float(np.polyfit(long[:, 0], long[:, 1], deg=1)[0]), 2)


def measure_alone(settings):
    command = [sys.executable, __file__, "--measure", json.dumps(settings)]
    return run(command, settings["threads"])


def measure(task, form, lengths, batch, features, window, calls, threads, seed):
    """Milliseconds of a call, and MiB at the peak so far, for each length."""
    import keras
    import tensorflow as tf

    from keras_attn import LocalAttention, LuongAttention

    keras.utils.set_random_seed(seed)
    layer = LuongAttention("general")
    if form == "local":
        layer = LocalAttention(layer, window=window)
    queries = tf.random.normal((batch, 1 if task == "step" else 64, features))

    @tf.function(reduce_retracing=True)
    def attend(queries, memory):
        return layer.attend(queries, memory)

    @tf.function(reduce_retracing=True)
    def forward(queries, values):
        return layer.attend(queries, layer.prepare_memory(values))

    @tf.function(reduce_retracing=True)
    def training(queries, values):
        with tf.GradientTape() as tape:
            tape.watch([queries, values])
            context, _ = layer.attend(queries, layer.prepare_memory(values))
            loss = tf.reduce_sum(tf.square(context))
        weights = [weight.value for weight in layer.trainable_weights]
        return tape.gradient(loss, [queries, values, *weights])

    def times(length):
        values = tf.random.normal((batch, length, features))
        layer(queries, values)  # so that the layer has its weights
        call, inputs = {"forward": forward, "training": training}.get(task, attend), values
        if call is attend:
            inputs = layer.prepare_memory(values)
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            call(queries, inputs)
            seconds.append(time.perf_counter() - start)
        return seconds

    for short in (8, 16):  # Two lengths, so that the function is traced for all.
        times(short)
    before = peak()
    return [
        {
            "length": length,
            "milliseconds": min(times(length)[1:]) * 1000,
            "mebibytes": (peak() - before) / MEBIBYTE,
        }
        for length in lengths
    ]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
