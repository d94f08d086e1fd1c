"""Time of a training step of an RNN decoder with the default `call` of `StepDecoder`.

    python benchmarks/unrolled_decoder.py

Compares the own `call` of `RNNDecoder` with two decoders that have the same weights and the default
`call`: one overrides `advance`, the other overrides `step`. Each measurement runs in a separate
process, and the three forms take turns. The time is the median CPU time over all steps except the
first, on one thread. The results are the medians of the rounds.

Writes `benchmarks/results/unrolled_decoder.json`.
"""

import statistics
import time

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

FORMS = ("own", "advance", "step")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=24, help="tokens in a sentence")
    parser.add_argument("--calls", type=int, default=6, help="steps; the first is not timed")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    found = measure_in_turn(__file__, FORMS, args)
    own = statistics.median(found["own"])
    rows = []
    for form in FORMS[1:]:
        ours = statistics.median(found[form])
        ratios = [mine / theirs for mine, theirs in zip(found[form], found["own"], strict=True)]
        row = {"model": f"default call with {form}", "ours": round(ours, 3), "unit": "CPU seconds"}
        row |= {"peer": "call of RNNDecoder", "theirs": round(own, 3)}
        rows.append({**row, "ratio": round(ours / own, 3)})
        print(f"{form}: {ours:.3f} s, {own:.3f} s, ratio {ours / own:.3f}")
        print(f"ratios of the rounds: {min(ratios):.3f} to {max(ratios):.3f}")
    write_results(
        args.out / "unrolled_decoder.json",
        rows,
        versions("keras", "tensorflow"),
        args.seed,
        settings=settings_of(args),
    )


def measure(args, form):
    """Returns the CPU seconds of a training step."""
    import keras
    import numpy as np

    import keras_attn
    from keras_attn.training import compile_for_training

    class StepOnly(keras_attn.StepDecoder):
        def __init__(self, decoder):
            super().__init__()
            self.decoder = decoder

        def build(
            self, token_ids_shape, encoder_outputs_shape, encoder_mask_shape, encoder_state_shape
        ):
            shapes = encoder_outputs_shape, encoder_mask_shape, encoder_state_shape
            self.decoder.build(token_ids_shape, *shapes)

        def prepare_memory(self, *arguments):
            return self.decoder.prepare_memory(*arguments)

        def initial_state(self, *arguments, **options):
            return self.decoder.initial_state(*arguments, **options)

        def step(self, *arguments):
            return self.decoder.step(*arguments)

    class Advance(StepOnly):
        def __init__(self, decoder):
            super().__init__(decoder)
            self.embedding, self.output_layer = decoder.embedding, decoder.output_layer

        def advance(self, *arguments):
            return self.decoder.advance(*arguments)

    keras.utils.set_random_seed(args.seed)
    size = args.vocabulary_size
    encoder, decoder = keras_attn.rnn_seq2seq(size, size, dropout=0.0)
    if form != "own":
        decoder = {"advance": Advance, "step": StepOnly}[form](decoder)
    model = compile_for_training(keras_attn.TrainingModel(encoder, decoder))
    ids = np.random.default_rng(args.seed).integers(3, size, (args.batch, args.tokens), "int32")
    seconds = []
    for _ in range(args.calls):
        start = time.process_time()
        model.train_on_batch({"source_ids": ids, "target_ids": ids}, ids)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


if __name__ == "__main__":
    main_or_measurement(main, measure)
