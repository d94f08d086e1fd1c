"""Peak memory and time of the cross-entropy, with and without storing all logits.

    python benchmarks/loss_memory.py

Two functions compute the cross-entropy with label smoothing, and the gradients of the token
features and the output kernel: `linear_crossentropy`, and `crossentropy_per_token` of the logits,
the product of features and kernel. Each measurement runs in a separate process, and the two
functions take turns. The memory is the peak resident size of the process minus its resident size
before the first batch of `tokens` tokens, so it does not include libraries, kernel and code. The
time is the median over all calls except the first. The results are the medians of the rounds.

Writes `benchmarks/results/loss_memory.json`.
"""

from arguments import argument_parser, settings_of
from machine import load_average
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results
from time_and_memory import medians, time_and_memory

FORMS = ("linear", "logits")
SIZES = ((128, 8000), (512, 8000), (512, 32000))  # features, classes
UNITS = {"mebibytes": "MiB at the peak", "seconds": "seconds"}


def main():
    parser = argument_parser(__doc__, threads=2, seed=1)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--calls", type=int, default=4, help="calls; the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = load_average()
    rows = []
    for features, classes in SIZES:
        for tokens in args.tokens:
            rows += rows_of(features, classes, tokens, args)
    write_results(
        args.out / "loss_memory.json",
        rows,
        versions("keras", "tensorflow"),
        args.seed,
        settings=settings_of(args),
        load_average_before=load,
    )


def rows_of(features, classes, tokens, args):
    what = {"features": features, "classes": classes, "tokens": tokens}
    found = measure_in_turn(__file__, FORMS, args, **what)
    (ours,), (theirs,) = (medians(found[form]) for form in FORMS)
    model = f"loss of {tokens:,} tokens, {features} features, {classes:,} classes"
    rows = []
    for name, unit in UNITS.items():
        rows.append(
            {
                "model": model,
                "ours": round(ours[name], 3),
                "theirs": round(theirs[name], 3),
                "peer": "the loss of logits",
                "unit": unit,
                "ratio": round(ours[name] / theirs[name], 3),
            }
        )
        print(f"{model}: {ours[name]:.3f} {unit}, of logits {theirs[name]:.3f}")
    return rows


def measure(args, form, features, classes, tokens):
    """Returns the seconds of a call and the peak MiB for each number of tokens."""
    import tensorflow as tf

    from keras_attn.training import crossentropy_per_token
    from keras_attn.training._linear_crossentropy import linear_crossentropy

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

    kernel = 0.05 * tf.random.stateless_normal((classes, features), (args.seed, 0))

    def prepare(tokens):
        inputs = tf.random.stateless_normal((tokens, features), (args.seed, 1))
        labels = tf.random.stateless_uniform((tokens,), (args.seed, 2), 0, classes, tf.int32)
        return lambda: call(labels, inputs, kernel)

    return time_and_memory(prepare, [tokens], args.calls)


if __name__ == "__main__":
    main_or_measurement(main, measure)
