"""Peak memory and time of training steps with and without a `keras.RematScope`.

    python benchmarks/rematerialization.py

Trains a Transformer language model and an RNN with attention. In a `keras.RematScope`, the backward
pass computes each block of the Transformer and each step of the RNN again. Each measurement runs in
a separate process, and the two forms take turns. The memory is the peak resident size of the
process minus its resident size after training steps with short sequences, so it does not include
libraries, weights, moments and code. The time is the median CPU time over all steps except the
first, on one thread. The results are the medians of the rounds.

Writes `benchmarks/results/rematerialization.json`.
"""

import time

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results
from time_and_memory import medians, time_and_memory

FORMS = ("rematerialized", "plain")
MODELS = {"transformer": "Transformer, {layers} layers of 256", "rnn": "RNN with attention of 256"}
UNITS = {"mebibytes": "MiB at the peak", "seconds": "CPU seconds"}
VOCABULARY_SIZE = 1000


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--calls", type=int, default=3, help="steps; the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rows = [
        row
        for kind in MODELS
        for tokens in (args.tokens if kind == "transformer" else args.tokens[:1])
        for row in rows_of(kind, tokens, args)
    ]
    write_results(
        args.out / "rematerialization.json",
        rows,
        versions("keras", "tensorflow"),
        args.seed,
        settings=settings_of(args, vocabulary_size=VOCABULARY_SIZE),
    )


def rows_of(kind, tokens, args):
    found = measure_in_turn(__file__, FORMS, args, kind=kind, tokens=tokens)
    (ours,), (theirs,) = (medians(found[form]) for form in FORMS)
    model = f"{MODELS[kind].format(layers=args.layers)}, {tokens} tokens"
    rows = []
    for name, unit in UNITS.items():
        row = {"model": model, "ours": round(ours[name], 3), "peer": "plain layers"}
        row |= {"theirs": round(theirs[name], 3), "unit": unit}
        rows.append({**row, "ratio": round(ours[name] / theirs[name], 3)})
        print(f"{model}: {ours[name]:.3f} {unit}, plain {theirs[name]:.3f}")
    return rows


def measure(args, form, kind, tokens):
    """Returns the seconds of a training step and the peak MiB."""
    import keras
    import numpy as np

    import keras_attn
    from keras_attn.training import compile_for_training

    keras.utils.set_random_seed(args.seed)
    with keras.RematScope("full" if form == "rematerialized" else None):
        if kind == "transformer":
            block = keras_attn.TransformerDecoderBlock(
                4, 1024, cross_attention=False, rotary=keras_attn.RotaryPositions()
            )
            embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 256)
            decoder = keras_attn.CausalLanguageModel(block, embedding, num_layers=args.layers)
            encoder = None
        else:
            encoder, decoder = keras_attn.rnn_seq2seq(VOCABULARY_SIZE, VOCABULARY_SIZE)
    model = compile_for_training(keras_attn.TrainingModel(encoder, decoder))
    generator = np.random.default_rng(args.seed)

    def prepare(tokens):
        shape = (args.batch, tokens)
        ids = generator.integers(3, VOCABULARY_SIZE, shape).astype("int32")
        inputs = ids if encoder is None else {"source_ids": ids, "target_ids": ids}
        return lambda: model.train_on_batch(inputs, ids)

    return time_and_memory(prepare, [tokens], args.calls, time.process_time)


if __name__ == "__main__":
    main_or_measurement(main, measure)
