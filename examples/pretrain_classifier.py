"""Pretrains an encoder as a masked language model, and fine-tunes it to classify reviews.

    python examples/pretrain_classifier.py

This command uses generated sentences. Only 40 of them have labels. To use your own data, run:

    python examples/pretrain_classifier.py --data DIR [--labelled COUNT]

DIR contains the files `{train,valid}.{pos,neg}`, plain or `.gz`, with one sentence per line. The
example also trains the same classifier from random weights, to show the benefit of pretraining.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path

# Speed: on processors without VNNI, TensorFlow takes twice as long without this setting.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
import numpy as np

import keras_attn
from keras_attn.export import export_functional_onnx
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.text import SentencePieceTokenizer, mask_tokens
from keras_attn.training import RunDirectory, compile_for_training

GENERATED = {
    "labelled": 40,
    "embedding_dim": 64,
    "dropout": 0.0,
    # After about 700 steps, the model suddenly learns which words belong together.
    "pretraining_epochs": 20,
    "epochs": 60,
    "learning_rate": 1e-3,
}
REVIEWS = {
    "labelled": None,
    "embedding_dim": 128,
    "dropout": 0.2,
    "pretraining_epochs": 12,
    "epochs": 4,
    "learning_rate": 5e-4,
}


def main():
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(args.seed)
    data = args.data or write_sentences(args.out / "data", args.seed)
    tokenizer = train_tokenizer(data, args)
    train, valid = (read_split(data, split, tokenizer) for split in ("train", "valid"))
    started = time.process_time()

    encoder = make_encoder(tokenizer, args)
    language_model = keras_attn.masked_language_model(encoder)
    batches = MaskedBatches(train, tokenizer.vocabulary_size, args)
    steps = args.pretraining_epochs * len(batches)
    compile_for_training(language_model, make_schedule(2e-3, steps), label_smoothing=0.0)
    language_model.fit(
        batches,
        validation_data=MaskedBatches(valid, tokenizer.vocabulary_size, args),
        epochs=args.pretraining_epochs,
        verbose=2,
    )
    report = {"pretraining_cpu_minutes": (time.process_time() - started) / 60}

    labelled = Batches(train[: args.labelled], args)
    classifiers = {
        "from_scratch": keras_attn.sequence_classifier(make_encoder(tokenizer, args), 2),
        "pretrained": keras_attn.sequence_classifier(encoder, 2),  # shares the trained encoder
    }
    for name, classifier in classifiers.items():
        accuracy = train_classifier(classifier, labelled, Batches(valid, args), args)
        report[f"accuracy_{name}"] = accuracy
    report["cpu_minutes"] = (time.process_time() - started) / 60

    RunDirectory.create(args.out, "classification", tokenizer).save_model(classifier)
    sample = pad(ids for ids, _ in valid[:100])
    report |= {"sentences": len(valid), "arguments": vars(args)}
    try:
        exported = export_functional_onnx(classifier, args.out / "classifier.onnx", sample)
        error = exported.largest_difference
        report["largest_onnx_difference"] = error
    finally:  # keep the results even if the export fails
        with atomic_replace(args.out / "results.json") as partial:
            partial.write_text(json.dumps(report, indent=2, default=str))
    print(
        f"accuracy: {report['accuracy_pretrained']:.4f}, "
        f"from scratch: {report['accuracy_from_scratch']:.4f}, "
        f"largest difference between Keras and ONNX: {error:.1e}"
    )


def write_sentences(directory, seed):
    """Writes sentences, each with two words of the same opinion (negative or positive)."""
    directory.mkdir(exist_ok=True)
    generator = random.Random(seed)
    subjects = ["the film", "its plot", "this story", "the music", "old jokes", "her acting"]
    opinions = {
        "neg": "bad dull poor weak flat stale clumsy dreary boring silly tired lame".split(),
        "pos": "good fun fresh great warm witty sharp lively funny clever bold smart".split(),
    }
    for split, count in (("train", 2000), ("valid", 250)):
        for side, words in opinions.items():
            lines = []
            for _ in range(count):
                first, second = generator.sample(subjects, 2)
                one, other = generator.sample(words, 2)
                lines.append(f"{first} is {one} and {other} , says who saw {second}\n")
            with atomic_replace(directory / f"{split}.{side}") as partial:
                partial.write_text("".join(lines), encoding="utf-8")
    return directory


def train_tokenizer(data, args):
    files = [find(data, "train", side) for side in ("neg", "pos")]
    tokenizer = SentencePieceTokenizer.train(files, args.vocabulary_size, "bpe")
    return tokenizer


def find(data, split, side):
    for path in (data / f"{split}.{side}", data / f"{split}.{side}.gz"):
        if path.exists():
            return path
    raise SystemExit(f"No {split}.{side} (or .gz) in {data}.")


def read_split(data, split, tokenizer):
    """Returns pairs of ids and label (1 = positive) in random order."""
    pairs = []
    for label, side in enumerate(("neg", "pos")):
        lines = list(read_lines(find(data, split, side)))
        pairs += [(ids, label) for ids in tokenizer.encode(lines)]
    random.Random(1).shuffle(pairs)
    return pairs


def pad(rows):
    """Returns ids `(batch, time)`, padded on the right, and truncated to 128."""
    options = {"padding": "post", "truncating": "post", "dtype": "int32"}
    rows = list(rows)
    longest = min(128, max(len(ids) for ids in rows))
    return keras.utils.pad_sequences(rows, longest, **options)


class Batches(keras.utils.PyDataset):
    """Batches of sentences with similar lengths. Each epoch divides the sentences again."""

    def __init__(self, pairs, args):
        super().__init__()
        self.pairs, self.size = pairs, args.batch_size
        self.seed, self.epoch = args.seed, 0
        self.divide()

    def divide(self):
        generator = random.Random(self.seed + self.epoch)
        order = sorted(self.pairs, key=lambda pair: (len(pair[0]), generator.random()))
        starts = range(0, len(order), self.size)
        batches = [order[start : start + self.size] for start in starts]
        # Keras infers from the first two batches whether the length varies. Begin with the shortest
        # and the longest sentences.
        first, rest = batches[:1] + batches[1:][-1:], batches[1:-1]
        generator.shuffle(rest)
        self.batches = first + rest

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        rows, labels = zip(*self.batches[index], strict=True)
        return pad(rows), np.array(labels, "int32")

    def on_epoch_end(self):
        self.epoch += 1
        self.divide()


class MaskedBatches(Batches):
    """Batches for masked language modeling. Each epoch masks different words.

    The mask token has the id after the last id of the tokenizer, so no text contains it.
    """

    def __init__(self, pairs, vocabulary_size, args):
        super().__init__(pairs, args)
        self.mask_token_id, self.rate = vocabulary_size, args.mask_rate

    def __getitem__(self, index):
        token_ids, _ = super().__getitem__(index)
        return mask_tokens(
            token_ids,
            vocabulary_size=self.mask_token_id + 1,
            mask_token_id=self.mask_token_id,
            seed=(self.seed, self.epoch, index),
            rate=self.rate,
        )


def make_encoder(tokenizer, args):
    """Creates a bidirectional Transformer whose vocabulary includes the mask token."""
    block = keras_attn.TransformerEncoderBlock(
        args.heads,
        4 * args.embedding_dim,
        activation="gelu",
        dropout=args.dropout,
        rotary=keras_attn.RotaryPositions(),
        seed=args.seed,
    )
    embedding = keras.layers.ReversibleEmbedding(
        tokenizer.vocabulary_size + 1,
        args.embedding_dim,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=args.embedding_dim**-0.5),
    )
    return keras_attn.TransformerEncoder(
        block,
        embedding,
        num_layers=args.layers,
        scale_embedding=True,
        dropout=args.dropout,
        name="encoder",
    )


def make_schedule(learning_rate, steps):
    """Creates a linear warmup in the first tenth of the steps, then a cosine decay to 0."""
    warmup = steps // 10
    return keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=learning_rate, warmup_steps=warmup
    )


def train_classifier(classifier, train, valid, args):
    """Trains a classifier. Returns the validation accuracy after the last epoch."""
    schedule = make_schedule(args.learning_rate, args.epochs * len(train))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(schedule, global_clipnorm=1.0)
    classifier.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    classifier.fit(train, epochs=args.epochs, verbose=2)
    return classifier.evaluate(valid, verbose=0)[1]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Options without a default depend on the data: GENERATED and REVIEWS in the code.",
    )
    parser.add_argument("--data", type=Path, help="folder of {train,valid}.{pos,neg} text files")
    parser.add_argument(
        "--out", type=Path, default=Path("build/pretrained"), help="output directory"
    )
    parser.add_argument("--labelled", type=int, default=None, help="number of labelled sentences")
    parser.add_argument(
        "--vocabulary-size", type=int, default=3000, help="maximum size of the vocabulary"
    )
    parser.add_argument("--pretraining-epochs", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--embedding-dim", type=int, default=None)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=None)
    parser.add_argument("--mask-rate", type=float, default=0.15, help="share of masked tokens")
    parser.add_argument(
        "--learning-rate", type=float, default=None, help="learning rate of the classifiers"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if problem := separate_paths_problem(
        {"--out": args.out}, {"--data": args.data}, only_equal=True
    ):
        parser.error(problem)
    for name, value in (REVIEWS if args.data else GENERATED).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


if __name__ == "__main__":
    main()
