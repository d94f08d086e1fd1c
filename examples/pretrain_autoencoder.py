"""Pretrains an LSTM on text without labels, and fine-tunes it to classify sentences.

    python examples/pretrain_autoencoder.py

This is semi-supervised sequence learning ([Dai and Le, 2015](https://arxiv.org/abs/1511.01432)).
The LSTM of a classifier starts from one of

- random weights,
- a sequence autoencoder: it encodes a sentence to its final state, and a decoder without attention
  repeats the sentence from this state,
- a language model: it predicts each token from the tokens before it.

The example trains all three with each of `--seeds` and reports their accuracies. The default data
are generated sentences; only 16 of them have labels. To use your own data, run:

    python examples/pretrain_autoencoder.py --data DIR [--unlabelled FILE] [--labelled COUNT]

DIR contains the files `{train,valid}.{pos,neg}`, plain or `.gz`, with one sentence per line. The
pretraining reads all training sentences without their labels, and the lines of the file
`--unlabelled`. There are two differences from the paper: encoder and decoder share only the
embedding, and the classifier averages all outputs of the LSTM.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

# Speed: on processors without VNNI, TensorFlow takes twice as long without this setting.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
from pretrain_classifier import (
    Batches,
    make_schedule,
    pad,
    read_split,
    train_classifier,
    train_tokenizer,
    write_sentences,
)

import keras_attn
from keras_attn.export import export_functional_onnx
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.training import RunDirectory, compile_for_training

GENERATED = {
    "labelled": 16,
    "units": 64,
    "dropout": 0.0,
    "pretraining_epochs": 20,
    "epochs": 60,
    "learning_rate": 5e-3,
}
REVIEWS = {
    "labelled": None,
    "units": 128,
    "dropout": 0.3,
    "pretraining_epochs": 8,
    "epochs": 5,
    "learning_rate": 1e-3,
}


def main():
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    data = args.data or write_sentences(args.out / "data", seed=1)
    tokenizer = train_tokenizer(data, args)
    train, valid = (read_split(data, split, tokenizer) for split in ("train", "valid"))
    unlabelled = list(train)
    if args.unlabelled is not None:
        unlabelled += [(ids, None) for ids in tokenizer.encode(list(read_lines(args.unlabelled)))]
    started = time.process_time()
    rows, accuracies = [], {name: [] for name in PRETRAININGS}
    for seed in args.seeds:
        args.seed = seed
        for name, pretrain in PRETRAININGS.items():
            keras.utils.set_random_seed(args.seed)
            encoder = make_encoder(tokenizer, args)
            row = {"model": f"{name}, seed {args.seed}"}
            if pretrain is not None:
                batches, rest = (TextBatches(each, args) for each in (unlabelled, valid))
                row["perplexity"] = pretrain(encoder, batches, rest, tokenizer, args)
            classifier = keras_attn.sequence_classifier(encoder, 2, dropout=args.dropout)
            labelled = Batches(balanced(train, args.labelled), args)
            row["accuracy"] = train_classifier(classifier, labelled, Batches(valid, args), args)
            accuracies[name].append(row["accuracy"])
            rows.append(row)
            print(json.dumps(row), flush=True)
    for name, found in accuracies.items():
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        rows.append({"model": name, "accuracy": statistics.mean(found), "deviation": spread})
    report = {"rows": rows, "cpu_minutes": (time.process_time() - started) / 60}
    report |= {"sentences": len(valid), "arguments": vars(args)}

    RunDirectory.create(args.out, "classification", tokenizer).save_model(classifier)
    sample = pad(ids for ids, _ in valid[:100])
    try:
        exported = export_functional_onnx(classifier, args.out / "classifier.onnx", sample)
        error = exported.largest_difference
        report["largest_onnx_difference"] = error
    finally:  # keep the results even if the export fails
        with atomic_replace(args.out / "results.json") as partial:
            partial.write_text(json.dumps(report, indent=2, default=str))
    for row in rows[-len(PRETRAININGS) :]:
        print(f"{row['model']}: {row['accuracy']:.4f} (standard deviation {row['deviation']:.4f})")
    print(gain(accuracies), f"Largest difference of the ONNX file: {error:.1e}")


def balanced(pairs, count):
    """Returns the first pairs of each label, `count` in all; all pairs if `count` is `None`."""
    if count is None:
        return pairs
    return [pair for label in (0, 1) for pair in [p for p in pairs if p[1] == label][: count // 2]]


def gain(accuracies):
    """Returns a sentence that compares the best pretraining with random weights."""
    scratch = accuracies["random weights"]
    name, best = max(
        ((name, found) for name, found in accuracies.items() if found is not scratch),
        key=lambda item: statistics.mean(item[1]),
    )
    differences = [one - other for one, other in zip(best, scratch, strict=True)]
    mean, least = statistics.mean(differences), min(differences)
    if least > 0:
        return f"Gain of the {name}: {mean:.4f}, with each seed."
    return f"No reliable gain: the {name} changes the accuracy by {mean:.4f}, minimum {least:.4f}."


def make_encoder(tokenizer, args):
    """Creates an LSTM that reads from left to right."""
    # The language model calls the embedding with masked outputs, which requires `mask_zero`.
    size = tokenizer.vocabulary_size
    embedding = keras.layers.ReversibleEmbedding(size, args.units, mask_zero=True)
    return keras_attn.RNNEncoder(
        keras.layers.LSTMCell(args.units),
        embedding,
        bidirectional=False,
        dropout=args.dropout,
        seed=args.seed,
        name="encoder",
    )


class TextBatches(Batches):
    """Batches of sentences without labels: ids and the same ids, shifted, with an end token.

    `kind` is "autoencoder" or "language model".
    """

    kind, tokenizer = "", None

    def __getitem__(self, index):
        rows = [ids[:127] for ids, _ in self.batches[index]]
        start, end = [self.tokenizer.start_token_id], [self.tokenizer.end_token_id]
        if self.kind == "language model":  # predicts the token after each token
            return pad(rows), pad(ids[1:] + end for ids in rows)
        inputs = {"source_ids": pad(rows), "target_ids": pad(start + ids for ids in rows)}
        return inputs, pad(ids + end for ids in rows)


def train_autoencoder(encoder, batches, valid, tokenizer, args):
    """Trains encoder and decoder to repeat sentences. Returns the perplexity on `valid`."""
    cell = keras.layers.LSTMCell(args.units)
    # The final state of the encoder is the only input of the decoder from the sentence.
    decoder = keras_attn.RNNDecoder(cell, encoder.embedding, bridge="copy", seed=args.seed)
    model = keras_attn.TrainingModel(encoder, decoder)
    return pretrain(model, "autoencoder", batches, valid, tokenizer, args)


def train_language_model(encoder, batches, valid, tokenizer, args):
    """Trains the encoder to predict the next token. Returns the perplexity on `valid`."""
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    outputs = encoder(token_ids)["encoder_outputs"]
    model = keras.Model(token_ids, encoder.embedding(outputs, reverse=True))
    return pretrain(model, "language model", batches, valid, tokenizer, args)


def pretrain(model, kind, batches, valid, tokenizer, args):
    for each in (batches, valid):
        each.kind, each.tokenizer = kind, tokenizer
    steps = args.pretraining_epochs * len(batches)
    compile_for_training(model, make_schedule(4e-3, steps), label_smoothing=0.0)
    model.fit(batches, epochs=args.pretraining_epochs, verbose=2)
    return model.evaluate(valid, verbose=0, return_dict=True)["perplexity"]


PRETRAININGS = {
    "random weights": None,
    "autoencoder": train_autoencoder,
    "language model": train_language_model,
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Options without a default depend on the data: GENERATED and REVIEWS in the code.",
    )
    parser.add_argument("--data", type=Path, help="folder of {train,valid}.{pos,neg} text files")
    parser.add_argument("--unlabelled", type=Path, help="more text for the pretraining")
    parser.add_argument(
        "--out", type=Path, default=Path("build/autoencoder"), help="output directory"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--labelled", type=int, default=None, help="number of sentences with a label"
    )
    parser.add_argument(
        "--vocabulary-size", type=int, default=3000, help="maximum size of the vocabulary"
    )
    parser.add_argument("--units", type=int, default=None, help="size of LSTM and embedding")
    parser.add_argument("--dropout", type=float, default=None)
    parser.add_argument("--pretraining-epochs", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument(
        "--learning-rate", type=float, default=None, help="learning rate of the classifiers"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    if problem := separate_paths_problem(
        {"--out": args.out},
        {"--data": args.data, "--unlabelled": args.unlabelled},
        only_equal=True,
    ):
        parser.error(problem)
    for name, value in (REVIEWS if args.data else GENERATED).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


if __name__ == "__main__":
    main()
