"""Peak memory and time of attention in blocks against the plain form, over the sequence length.

    python benchmarks/blockwise_memory.py

runs causal self-attention of one sequence, forward alone and forward with the gradients of query,
keys and values, and the additive score of 64 queries in chunks of 64 keys, forward and backward;
each measurement in a process of its own. The memory is the largest resident size
of the process less that of the same process before the first long sequence, so without the
libraries and the program. The time is that of the fastest call after the first.

Writes `benchmarks/results/blockwise_memory.json`.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from machine import load_average
from own_process import run
from results_file import FOLDER, versions, write_results

MODELS = {"dot": "causal self-attention", "additive": "additive score"}
QUERIES = CHUNK_SIZE = 64  # of the additive score
MEBIBYTE = 1024  # `ru_maxrss` counts KiB on Linux.


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--block-size", type=int, default=512)
    parser.add_argument("--units", type=int, default=512, help="of the additive score")
    parser.add_argument("--calls", type=int, default=3, help="of which the first is not timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one measurement, in its process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(**json.loads(args.measure))))
        return
    load = load_average()
    names = ("heads", "head_dim", "block_size", "units", "calls", "threads", "seed")
    sizes = {name: getattr(args, name) for name in names}

    rows = []
    for attention, gradients in (("dot", False), ("dot", True), ("additive", True)):
        direction = "forward and backward" if gradients else "forward"
        for tokens in args.tokens:
            what = {"attention": attention, "tokens": tokens, "gradients": gradients}
            ours, theirs = (
                measure_alone({**what, **sizes, "form": form}) for form in ("blockwise", "plain")
            )
            row = {
                "model": f"{MODELS[attention]}, {direction}, {tokens} tokens",
                "tokens": tokens,
                "ours": round(ours["peak"], 1),
                "theirs": round(theirs["peak"], 1),
                "peer": "the plain form",
                "unit": "MiB at the peak",
                "ratio": round(ours["peak"] / theirs["peak"], 3),
                "ours_seconds": round(ours["seconds"], 3),
                "theirs_seconds": round(theirs["seconds"], 3),
            }
            rows.append(row)
            print(
                f"{row['model']}: blockwise {row['ours']} MiB in "
                f"{row['ours_seconds']} s, plain {row['theirs']} MiB in {row['theirs_seconds']} s"
            )

    write_results(
        args.out / "blockwise_memory.json",
        rows,
        versions("keras", "tensorflow"),
        settings={"batch": 1, **sizes, "queries": QUERIES, "chunk_size": CHUNK_SIZE},
        seed=args.seed,
        load_average_before=load,
    )


def measure_alone(settings):
    command = [sys.executable, __file__, "--measure", json.dumps(settings)]
    return run(command, settings["threads"])


def measure(attention, form, gradients, tokens, calls, seed, threads, **sizes):
    """Peak memory in MiB and seconds of a call."""
    import tensorflow as tf

    attend = {"dot": dot, "additive": additive}[attention](form, **sizes)

    @tf.function(reduce_retracing=True)
    def call(*inputs):
        if not gradients:
            return attend(*inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(attend(*inputs)))
        return tape.gradient(loss, inputs)

    def seconds(tokens):
        inputs = [
            tf.random.stateless_normal(shape, (seed, number))
            for number, shape in enumerate(shapes(attention, tokens, **sizes))
        ]
        start = time.perf_counter()
        call(*inputs)
        return time.perf_counter() - start

    for short in (8, 16):  # Two lengths, so that the function is traced for all.
        seconds(short)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = [seconds(tokens) for _ in range(calls)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"peak": peak / MEBIBYTE, "seconds": min(times[1:])}


def shapes(attention, tokens, heads, head_dim, units, block_size):
    """Of the inputs: queries, keys and values; or queries, keys and the vector."""
    if attention == "dot":
        return [(1, heads, tokens, head_dim)] * 3
    return [(1, QUERIES, units), (1, tokens, units), (units,)]


def dot(form, head_dim, block_size, **sizes):
    """Function of queries, keys and values."""
    import tensorflow as tf

    from keras_attn.attention.blockwise_dot_product import blockwise_dot_product
    from keras_attn.attention.scaled_dot_product import scaled_dot_product
    from keras_attn.masks import causal_mask

    def attend(query, keys, values):
        query = query * head_dim**-0.5
        if form == "blockwise":
            return blockwise_dot_product(query, keys, values, causal=True, block_size=block_size)
        positions = tf.range(tf.shape(query)[2])[None]
        return scaled_dot_product(query, keys, values, causal_mask(positions, positions))[0]

    return attend


def additive(form, **sizes):
    """Function of queries, keys and the vector."""
    from keras_attn.attention.additive_score import additive_score

    chunk_size = CHUNK_SIZE if form == "blockwise" else None
    return lambda query, keys, vector: additive_score(query, keys, vector, None, chunk_size)


if __name__ == "__main__":
    main()
