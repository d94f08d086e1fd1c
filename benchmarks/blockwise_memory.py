"""Peak memory and time of blockwise and plain attention as a function of the sequence length.

    python benchmarks/blockwise_memory.py

Measures three tasks:

- causal self-attention of one sequence, only the forward pass;
- causal self-attention of one sequence, with the gradients of query, keys and values;
- the additive score of 64 queries, with all gradients. The blockwise form processes 64 keys at a
  time.

Each measurement runs in a separate process, and the blockwise and the plain form take turns. The
memory is the peak resident size of the process minus its resident size before the first long
sequence, so it does not include libraries and code. The time is the median over all calls except
the first. The results are the medians of the rounds.

Writes `benchmarks/results/blockwise_memory.json`.
"""

from arguments import argument_parser, settings_of
from machine import load_average
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results
from time_and_memory import medians, time_and_memory

MODELS = {"dot": "causal self-attention", "additive": "additive score"}
FORMS = ("blockwise", "plain")
QUERIES = CHUNK_SIZE = 64  # for the additive score: number of queries, keys in a chunk


def main():
    parser = argument_parser(__doc__, threads=2, seed=1)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--block-size", type=int, default=512)
    parser.add_argument("--units", type=int, default=512, help="units of the additive score")
    parser.add_argument("--calls", type=int, default=3, help="calls; the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = load_average()
    rows = [
        row_of(attention, gradients, tokens, args)
        for attention, gradients in (("dot", False), ("dot", True), ("additive", True))
        for tokens in args.tokens
    ]
    write_results(
        args.out / "blockwise_memory.json",
        rows,
        versions("keras", "tensorflow"),
        args.seed,
        settings=settings_of(args, batch=1, queries=QUERIES, chunk_size=CHUNK_SIZE),
        load_average_before=load,
    )


def row_of(attention, gradients, tokens, args):
    what = {"attention": attention, "gradients": gradients, "tokens": tokens}
    found = measure_in_turn(__file__, FORMS, args, **what)
    (ours,), (theirs,) = (medians(found[form]) for form in FORMS)
    direction = "forward and backward" if gradients else "forward"
    row = {
        "model": f"{MODELS[attention]}, {direction}, {tokens} tokens",
        "tokens": tokens,
        "ours": round(ours["mebibytes"], 1),
        "theirs": round(theirs["mebibytes"], 1),
        "peer": "the plain form",
        "unit": "MiB at the peak",
        "ratio": round(ours["mebibytes"] / theirs["mebibytes"], 3),
        "ours_seconds": round(ours["seconds"], 3),
        "theirs_seconds": round(theirs["seconds"], 3),
    }
    print(
        f"{row['model']}: blockwise {row['ours']} MiB in "
        f"{row['ours_seconds']} s, plain {row['theirs']} MiB in {row['theirs_seconds']} s"
    )
    return row


def measure(args, form, attention, gradients, tokens):
    """Returns the seconds of a call and the peak MiB for one length, in a list."""
    import tensorflow as tf

    attend = dot(form, args) if attention == "dot" else additive(form)

    @tf.function(reduce_retracing=True)
    def call(*inputs):
        if not gradients:
            return attend(*inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(attend(*inputs)))
        return tape.gradient(loss, inputs)

    def prepare(tokens):
        if attention == "dot":
            shapes = [(1, args.heads, tokens, args.head_dim)] * 3
        else:
            shapes = [(1, QUERIES, args.units), (1, tokens, args.units), (args.units,)]
        inputs = [
            tf.random.stateless_normal(shape, (args.seed, number))
            for number, shape in enumerate(shapes)
        ]
        return lambda: call(*inputs)

    return time_and_memory(prepare, [tokens], args.calls)


def dot(form, args):
    """Returns a function of queries, keys and values."""
    import tensorflow as tf

    from keras_attn._attention.blockwise_dot_product import blockwise_dot_product
    from keras_attn._attention.scaled_dot_product import scaled_dot_product
    from keras_attn._masks import causal_mask

    def attend(query, keys, values):
        query = query * args.head_dim**-0.5
        if form == "blockwise":
            return blockwise_dot_product(
                query, keys, values, causal=True, block_size=args.block_size
            )
        positions = tf.range(tf.shape(query)[2])[None]
        return scaled_dot_product(query, keys, values, causal_mask(positions, positions))[0]

    return attend


def additive(form):
    """Returns a function of queries, keys and the score vector."""
    from keras_attn._attention.additive_score import additive_score

    chunk_size = CHUNK_SIZE if form == "blockwise" else None
    return lambda query, keys, vector: additive_score(query, keys, vector, None, chunk_size)


if __name__ == "__main__":
    main_or_measurement(main, measure)
