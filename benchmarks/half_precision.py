"""Quality of a model that is trained in mixed_bfloat16 and in float32, with several seeds.

    python benchmarks/half_precision.py

Trains an RNN with attention that translates dates (see `generate_dates`), with the same batches
in both precisions. Reports the validation loss, and the share of unseen dates that greedy search
translates without an error. Each training runs in a separate process. The difference between the
precisions is within the noise if the ranges of their results overlap. Processors without bfloat16
instructions are slower in bfloat16, so this benchmark compares no times.

Writes `benchmarks/results/half_precision.json`.
"""

import statistics
from argparse import Namespace

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

POLICIES = ("float32", "mixed_bfloat16")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds; --seed is the first")
    parser.add_argument("--train", type=int, default=20000, help="number of dates")
    parser.add_argument("--test", type=int, default=1000, help="number of unseen dates")
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    found = {policy: [] for policy in POLICIES}
    for seed in range(args.seed, args.seed + args.seeds):
        one = Namespace(**{**vars(args), "seed": seed, "rounds": 1})
        for policy, (result,) in measure_in_turn(__file__, POLICIES, one).items():
            found[policy].append(result)
            print(policy, seed, result)
    rows = []
    for policy, results in found.items():
        row = {"model": f"RNN with attention, dates, {policy}"}
        for name in results[0]:
            values = [each[name] for each in results]
            row |= {name: statistics.mean(values), f"least_{name}": min(values)}
            row[f"largest_{name}"] = max(values)
        rows.append(row)
    found_versions = versions("keras", "tensorflow")
    settings = settings_of(args)
    path = args.out / "half_precision.json"
    write_results(path, rows, found_versions, args.seed, settings=settings, runs=found)


def measure(args, policy):
    """Trains with a dtype policy. Returns the share of exact translations and the loss."""
    import keras
    import numpy as np

    import keras_attn
    from keras_attn.text import generate_dates
    from keras_attn.training import compile_for_training

    keras.utils.set_random_seed(args.seed)
    keras.config.set_dtype_policy(policy)
    train, test = (
        generate_dates(count, 0, split)
        for split, count in (("train", args.train), ("test", args.test))
    )
    characters = sorted({each for texts in train for text in texts for each in text})
    ids = {each: index for index, each in enumerate(characters, start=4)}  # 3: unknown character

    def encode(texts, before=(), after=()):
        rows = [[*before, *(ids.get(each, 3) for each in text), *after] for text in texts]
        return keras.utils.pad_sequences(rows, padding="post", dtype="int32")

    def batches_of(sources, targets):
        source_ids = encode(sources, after=[2])
        inputs = {"source_ids": source_ids, "target_ids": encode(targets, before=[1])}
        return inputs, encode(targets, after=[2])

    size = len(ids) + 4
    encoder, decoder = keras_attn.rnn_seq2seq(size, size, units=64, embedding_dim=64, dropout=0.1)
    model = keras_attn.TrainingModel(encoder, decoder)
    steps = args.epochs * -(-args.train // 128)
    schedule = keras.optimizers.schedules.CosineDecay(5e-3, steps)
    compile_for_training(model, schedule, label_smoothing=0.0)
    inputs, labels = batches_of(*train)
    model.fit(inputs, labels, batch_size=128, epochs=args.epochs, verbose=0)

    inputs, labels = batches_of(*test)
    loss = model.evaluate(inputs, labels, batch_size=128, verbose=0, return_dict=True)["loss"]
    search = keras_attn.GreedyDecoder(decoder, max_length=12, relative_max_length=None)
    translator = keras_attn.GenerationModel(encoder, search)
    found = translator.predict(inputs["source_ids"], batch_size=128, verbose=0)["token_ids"][:, 0]
    found = found[:, : labels.shape[1]]
    found = np.pad(found, ((0, 0), (0, labels.shape[1] - found.shape[1])))
    exact = np.all((found == labels) | (labels == 0), axis=1)
    return {"exact": float(exact.mean()), "loss": float(loss)}


if __name__ == "__main__":
    main_or_measurement(main, measure)
