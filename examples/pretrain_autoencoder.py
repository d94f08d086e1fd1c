"""Pretrains an LSTM on text without labels, and fine-tunes it to classify sentences.

    python examples/pretrain_autoencoder.py

This is semi-supervised sequence learning ([Dai and Le, 2015](https://arxiv.org/abs/1511.01432)).
The LSTM of a classifier starts from random weights, from a sequence autoencoder (a decoder without
attention repeats a sentence from its final state), or from a language model. All three are trained
with three seeds. The default data are generated; only 16 sentences have labels. For your own, run:

    python examples/pretrain_autoencoder.py --data DIR [--unlabelled FILE]

DIR contains the files `{train,valid}.{neg,pos}` with one sentence per line. The pretraining reads
all training sentences, and those of `--unlabelled`. Unlike in the paper, encoder and decoder share
only the embedding, and the classifier averages all outputs of the LSTM. The best one is saved.
"""

import argparse
import collections
import random
from pathlib import Path

import keras
import numpy as np

import keras_attn
from keras_attn.files import read_lines, write_lines
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import RunDirectory, compile_for_training

Settings = collections.namedtuple("Settings", "labelled units dropout pretraining epochs rate")
GENERATED = Settings(labelled=16, units=64, dropout=0.0, pretraining=20, epochs=60, rate=5e-3)
OWN = Settings(labelled=None, units=128, dropout=0.3, pretraining=8, epochs=5, rate=1e-3)
STARTS, LABELS = ("random weights", "autoencoder", "language model"), ("neg", "pos")
SEEDS, BATCH_SIZE, MAX_LENGTH = (1, 2, 3), 64, 63


def generate_sentences(count, seed):
    """Returns sentences, each with two words of the same opinion, and labels."""
    generator = random.Random(seed)
    subjects = ["the film", "its plot", "this story", "the music", "old jokes", "her acting"]
    negative = "bad dull poor weak flat stale clumsy dreary boring silly tired lame".split()
    positive = "good fun fresh great warm witty sharp lively funny clever bold smart".split()
    words, labels = (negative, positive), [0, 1] * (count // 2)
    drawn = [(*generator.sample(subjects, 2), *generator.sample(words[x], 2)) for x in labels]
    return [f"{a} is {c} and {d} , says who saw {b}" for a, b, c, d in drawn], np.array(labels)


def read_sentences(directory, split):
    """Returns the sentences of the files without blank lines, and labels."""
    files = [directory / f"{split}.{label}" for label in LABELS]
    sides = [[line for line in read_lines(file) if line.strip()] for file in files]
    return sum(sides, []), np.repeat(range(len(LABELS)), [len(side) for side in sides])


def make_encoder(vocabulary_size, settings):
    """Creates an LSTM that reads from left to right."""
    # The language model calls the embedding with masked outputs, which requires `mask_zero`.
    embedding = keras.layers.ReversibleEmbedding(vocabulary_size, settings.units, mask_zero=True)
    cell, dropout = keras.layers.LSTMCell(settings.units), settings.dropout
    return keras_attn.RNNEncoder(cell, embedding, bidirectional=False, dropout=dropout)


def pad(rows):
    return keras.utils.pad_sequences(rows, padding="post")


def schedule(learning_rate, count, epochs):
    """Creates a linear warmup in the first tenth of the steps, then a cosine decay to 0."""
    steps = epochs * -(-count // BATCH_SIZE)
    warmup, cosine_decay = steps // 10, keras.optimizers.schedules.CosineDecay
    return cosine_decay(0.0, steps - warmup, warmup_target=learning_rate, warmup_steps=warmup)


def pretrain(start, encoder, rows, tokenizer, settings):
    """Trains the encoder on lists of ids, as an autoencoder or as a language model."""
    if start == "autoencoder":
        # The final state of the encoder is the only input of the decoder from the sentence.
        cell = keras.layers.LSTMCell(settings.units)
        decoder = keras_attn.RNNDecoder(cell, encoder.embedding, bridge="copy")
        model = keras_attn.TrainingModel(encoder, decoder)
    else:
        token_ids = keras.Input((None,), dtype="int32", name="target_ids")
        outputs = encoder(token_ids)["encoder_outputs"]
        model = keras.Model(token_ids, encoder.embedding(outputs, reverse=True))
    # Both predict each token from the tokens before it.
    inputs = pad([[tokenizer.start_token_id, *ids] for ids in rows])
    labels = pad([[*ids, tokenizer.end_token_id] for ids in rows])
    if start == "autoencoder":
        inputs = {"source_ids": pad(rows), "target_ids": inputs}
    rate = schedule(4e-3, len(rows), settings.pretraining)
    compile_for_training(model, rate, label_smoothing=0.0)
    model.fit(inputs, labels, BATCH_SIZE, settings.pretraining, verbose=2)


def train_classifier(encoder, ids, labels, settings):
    classifier = keras_attn.sequence_classifier(encoder, 2, dropout=settings.dropout)
    rate = schedule(settings.rate, len(ids), settings.epochs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=1.0)
    classifier.compile(optimizer, loss, metrics=["accuracy"])
    classifier.fit(ids, labels, BATCH_SIZE, settings.epochs, verbose=2)
    return classifier


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="labelled texts. Default: generated sentences")
    parser.add_argument("--unlabelled", type=Path, help="more text for the pretraining")
    parser.add_argument("--out", type=Path, default="build/autoencoder", help="run directory")
    args = parser.parse_args()
    if args.data:
        settings, train, valid = OWN, *(read_sentences(args.data, x) for x in ("train", "valid"))
    else:
        settings, train, valid = GENERATED, generate_sentences(4000, 1), generate_sentences(500, 2)
    more = list(filter(str.strip, read_lines(args.unlabelled))) if args.unlabelled else []
    args.out.mkdir(parents=True, exist_ok=True)
    write_lines(args.out / "train.txt", train[0])
    tokenizer = SentencePieceTokenizer.train(args.out / "train.txt", 3000, "bpe")
    run = RunDirectory.create(args.out, "classification", tokenizer)
    rows = [ids[:MAX_LENGTH] for ids in tokenizer.encode(train[0] + more)]
    valid_ids = pad(tokenizer.encode(valid[0]))
    chosen, best = slice(settings.labelled or len(train[0])), 0.0
    for start in STARTS:
        accuracies = []
        for seed in SEEDS:
            keras.utils.set_random_seed(seed)
            encoder = make_encoder(tokenizer.vocabulary_size, settings)
            if start != STARTS[0]:
                pretrain(start, encoder, rows, tokenizer, settings)
            classifier = train_classifier(encoder, pad(rows[chosen]), train[1][chosen], settings)
            accuracies.append(classifier.evaluate(valid_ids, valid[1], verbose=0)[1])
            if accuracies[-1] > best:
                best = accuracies[-1]
                run.save_model(classifier)
        deviation = np.std(accuracies, ddof=1)
        print(f"{start}: accuracy {np.mean(accuracies):.4f}, standard deviation {deviation:.4f}")
    print(f"Wrote {run.model_path}")
    try:
        from keras_attn.export import export_functional_onnx

        path, best = args.out / "classifier.onnx", run.load_model("classification")
        export_functional_onnx(best, path, valid_ids[:100], tokenizer=tokenizer, labels=LABELS)
        print(f"Wrote {path}. Next: keras-attn-runtime classify {path}")
    except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
        print(f"No ONNX file. {error}")


if __name__ == "__main__":
    main()
