"""Pretrains an encoder as a masked language model, and fine-tunes it to classify texts.

    python examples/pretrain_classifier.py

This command uses generated sentences. Only 40 of them have labels. To use your own data, pass
`--data PATH`: a table with a label and a text in each line, or a directory with the text files
`train.LABEL` and `valid.LABEL` (see `keras_attn.text.read_labelled_texts`). The example also trains
the same classifier from random weights, to show the benefit of pretraining.
"""

import argparse
import os
import random
from pathlib import Path

# Speed: on processors without VNNI, TensorFlow takes twice as long without this setting.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras

import keras_attn
from keras_attn.files import separate_paths_problem, write_lines
from keras_attn.text import (
    LabelledBatches,
    LabelledTexts,
    SentencePieceTokenizer,
    mask_tokens,
    read_labelled_texts,
)
from keras_attn.training import RunDirectory, compile_for_training

# After about 700 steps, the model suddenly learns which words belong together.
GENERATED = {"dim": 64, "dropout": 0.0, "pretraining": 20, "texts": 40, "epochs": 60, "rate": 1e-3}
REAL = {"dim": 128, "dropout": 0.2, "pretraining": 12, "texts": None, "epochs": 4, "rate": 5e-4}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="labelled texts. Default: generated sentences")
    parser.add_argument(
        "--out", type=Path, default=Path("build/pretrained"), help="folder. Default: %(default)s"
    )
    args = parser.parse_args()
    paths = {"--out": args.out}, {"--data": args.data}
    if problem := separate_paths_problem(*paths, only_equal=True):
        parser.error(problem)
    args.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(1)
    settings = REAL if args.data else GENERATED
    try:
        splits = read_labelled_texts(args.data) if args.data else write_sentences()
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    labels = sorted(set(splits["train"].labels))
    write_lines(args.out / "train.txt", splits["train"].texts)
    tokenizer = SentencePieceTokenizer.train(args.out / "train.txt", 3000, "bpe")
    data = {}  # the first 128 ids of each text, and its class
    for split, each in splits.items():
        rows = [ids[:128] for ids in tokenizer.encode(each.texts)]
        data[split] = rows, [labels.index(label) for label in each.labels]

    encoder = make_encoder(tokenizer, settings)
    language_model = keras_attn.masked_language_model(encoder)
    mask = tokenizer.vocabulary_size
    batches, valid = (MaskedBatches(*data[name], mask) for name in ("train", "valid"))
    steps = settings["pretraining"] * len(batches)
    compile_for_training(language_model, make_schedule(2e-3, steps), label_smoothing=0.0)
    language_model.fit(batches, validation_data=valid, epochs=settings["pretraining"], verbose=2)

    rows, classes = (each[: settings["texts"]] for each in data["train"])
    labelled = LabelledBatches(rows, classes, 64, length_multiple=8)
    valid = LabelledBatches(*data["valid"], 64, length_multiple=8)
    scratch = keras_attn.sequence_classifier(make_encoder(tokenizer, settings), len(labels))
    classifier = keras_attn.sequence_classifier(encoder, len(labels))  # shares the encoder
    both = [train_classifier(each, labelled, valid, settings) for each in (scratch, classifier)]
    run = RunDirectory.create(args.out, "classification", tokenizer, labels=labels)
    run.save_model(classifier)
    print(f"accuracy: {both[1]:.4f}, from scratch: {both[0]:.4f}")
    print(f"wrote {run.model_path}\nnext: keras-attn export onnx {args.out} classifier.onnx")


def write_sentences():
    """Returns sentences, each with two words of the same opinion (negative or positive)."""
    subjects = ["the film", "its plot", "this story", "the music", "old jokes", "her acting"]
    opinions = {
        "neg": "bad dull poor weak flat stale clumsy dreary boring silly tired lame".split(),
        "pos": "good fun fresh great warm witty sharp lively funny clever bold smart".split(),
    }
    splits = {"train": LabelledTexts(), "valid": LabelledTexts()}
    for split, count in (("train", 4000), ("valid", 500)):
        for _ in range(count):
            label = random.choice(list(opinions))
            (first, second), words = (random.sample(x, 2) for x in (subjects, opinions[label]))
            splits[split].texts.append(f"{first} is {' and '.join(words)}, says who saw {second}")
            splits[split].labels.append(label)
    return splits


class MaskedBatches(LabelledBatches):
    """Batches for masked language modeling. Each epoch masks different words.

    The mask token has the id after the last id of the tokenizer, so no text contains it.
    """

    def __init__(self, rows, labels, mask_token_id):
        super().__init__(rows, labels, batch_size=64, length_multiple=8)
        self.mask_token_id = mask_token_id

    def batch(self, step):
        ids, _ = super().batch(step)
        size = self.mask_token_id + 1
        return mask_tokens(ids, size, self.mask_token_id, seed=(self.seed, step))


def make_encoder(tokenizer, settings):
    """Creates a bidirectional Transformer whose vocabulary includes the mask token."""
    dim, dropout = settings["dim"], settings["dropout"]
    rotary = keras_attn.RotaryPositions()
    block = keras_attn.TransformerEncoderBlock(
        4, 4 * dim, activation="gelu", dropout=dropout, rotary=rotary
    )
    initializer = keras.initializers.RandomNormal(stddev=dim**-0.5)
    embedding = keras.layers.ReversibleEmbedding(
        tokenizer.vocabulary_size + 1, dim, embeddings_initializer=initializer
    )
    return keras_attn.TransformerEncoder(
        block, embedding, num_layers=2, scale_embedding=True, dropout=dropout, name="encoder"
    )


def make_schedule(learning_rate, steps):
    """Creates a linear warmup in the first tenth of the steps, then a cosine decay to 0."""
    warmup = steps // 10
    return keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=learning_rate, warmup_steps=warmup
    )


def train_classifier(classifier, train, valid, settings):
    """Trains a classifier. Returns the validation accuracy after the last epoch."""
    schedule = make_schedule(settings["rate"], settings["epochs"] * len(train))
    optimizer = keras.optimizers.Adam(schedule, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(optimizer, loss, metrics=["accuracy"])
    classifier.fit(train, epochs=settings["epochs"], verbose=2)
    return classifier.evaluate(valid, verbose=0)[1]


if __name__ == "__main__":
    main()
