"""Time and memory of windowed and full attention as a function of the source length.

    python benchmarks/local_attention.py

Compares `LocalAttention(LuongAttention())` (windowed) with `LuongAttention()` (full) in four tasks:

- a decoding step: one query per sentence, without the preparation of the memory;
- 64 queries, without the preparation of the memory;
- 64 queries, including the preparation of the memory;
- a training step with 64 queries, including the preparation of the memory and the gradients of
  weights, queries and values.

The preparation of the memory is the projection of the values to keys. The window and the number of
queries do not depend on the source length. Only the preparation, the mask and the returned weights
(one number per position) grow with the source.

The time is the median of all calls after the first. The memory is the peak resident size of the
process minus its resident size before the first measured source. The memory includes the source and
its preparation, even if the preparation is not timed. Each combination of attention and task runs
in its own process, in order of increasing source length. Windowed and full attention take turns,
and the results are the medians of the rounds. A slope is fitted to the logarithms of time and
source length, for sources of at least `--slope-from` positions. A slope of 0 means constant time; a
slope of 1 means that the time is proportional to the length.

Writes `benchmarks/results/local_attention.json`.
"""

import json

import numpy as np
from arguments import argument_parser, settings_of
from machine import load_average
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results
from time_and_memory import medians, time_and_memory

TASKS = {
    "step": "one query",
    "attend": "64 queries",
    "forward": "64 queries and preparation",
    "training": "training step of 64 queries",
}
FORMS = ("local", "all")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    lengths = [64, 128, 256, 512, 1024, 2048, 4096]
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=lengths, help="source lengths, increasing"
    )
    parser.add_argument("--slope-from", type=int, default=512, help="shortest length for the slope")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--window", type=int, default=10, help="half of the window, in positions")
    parser.add_argument("--calls", type=int, default=20, help="calls; the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = load_average()

    rows, slopes = [], {}
    for task in TASKS:
        found = measure_in_turn(__file__, FORMS, args, task=task)
        found = {form: medians(found[form]) for form in FORMS}
        rows += rows_of(task, args.lengths, found)
        for form in FORMS:
            slopes[f"{task}_{form}"] = slope(args.lengths, found[form], args.slope_from)
    rows.append({"model": f"slopes from {args.slope_from} positions on", **slopes})
    print(json.dumps(rows[-1]))

    write_results(
        args.out / "local_attention.json",
        rows,
        versions("keras", "tensorflow"),
        args.seed,
        settings=settings_of(args),
        load_average_before=load,
    )


def rows_of(task, lengths, found):
    rows = []
    for length, ours, theirs in zip(lengths, *(found[form] for form in FORMS), strict=True):
        row = {
            "model": f"local-p, {TASKS[task]}, {length} positions",
            "ours": round(1000 * ours["seconds"], 4),
            "theirs": round(1000 * theirs["seconds"], 4),
            "peer": "attention to all",
            "unit": "ms",
            "ratio": round(ours["seconds"] / theirs["seconds"], 3),
            "ours_mebibytes": round(ours["mebibytes"], 1),
            "theirs_mebibytes": round(theirs["mebibytes"], 1),
        }
        rows.append(row)
        print(json.dumps(row))
    return rows


def slope(lengths, found, start):
    points = [(length, each["seconds"]) for length, each in zip(lengths, found, strict=True)]
    long = np.log([point for point in points if point[0] >= start])  # (lengths, 2)
    return round(float(np.polyfit(long[:, 0], long[:, 1], deg=1)[0]), 2)


def measure(args, form, task):
    """Returns the seconds of a call and the peak MiB so far, for each length."""
    import keras
    import tensorflow as tf

    from keras_attn import LocalAttention, LuongAttention

    keras.utils.set_random_seed(args.seed)
    layer = LuongAttention("general")
    if form == "local":
        layer = LocalAttention(layer, window=args.window)
    queries = tf.random.normal((args.batch, 1 if task == "step" else 64, args.features))
    layer(queries, tf.zeros((args.batch, 1, args.features)))  # creates the weights

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

    def prepare(length):
        values = tf.random.normal((args.batch, length, args.features))
        if task == "forward":
            return lambda: forward(queries, values)
        if task == "training":
            return lambda: training(queries, values)
        memory = layer.prepare_memory(values)
        return lambda: attend(queries, memory)

    return time_and_memory(prepare, args.lengths, args.calls)


if __name__ == "__main__":
    main_or_measurement(main, measure)
