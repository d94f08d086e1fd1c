"""Trains a bidirectional LSTM with attention that classifies sentences as bad or good.

    python examples/classify_sentences.py

This command uses generated sentences. To use your own data, pass `--data DIR` with the text files
`{train,valid}.{neg,pos}`, plain or `.gz`, with one sentence per line. The output directory then
contains the model, a page with the attention of some sentences, and, if the backend of Keras is
TensorFlow, an ONNX file that reads texts. `keras-attn-runtime classify` runs this file.
"""

import argparse
import random
from pathlib import Path

import keras
import numpy as np

from keras_attn import AttentionPooling
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import RunDirectory
from keras_attn.visualize import write_alignment_html

LABELS = ["bad", "good"]
SIDES = ["neg", "pos"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, help="folder of {train,valid}.{neg,pos}. Default: generated sentences"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/classifier"), help="folder. Default: %(default)s"
    )
    args = parser.parse_args()
    if problem := separate_paths_problem(
        {"--out": args.out}, {"--data": args.data}, only_equal=True
    ):
        parser.error(problem)
    keras.utils.set_random_seed(1)
    data = args.data or write_sentences(args.out / "data")
    train_texts, train_labels = read_split(data, "train")
    texts, labels = read_split(data, "valid")

    files = [find(data, "train", side) for side in SIDES]
    tokenizer = SentencePieceTokenizer.train(files, 8000, "bpe")
    train_ids, ids = (encode(tokenizer, each) for each in (train_texts, texts))
    model = make_model(tokenizer.vocabulary_size)
    classifier = keras.Model(model.input, model.output["good"])  # shares the layers of `model`
    classifier.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    classifier.fit(train_ids, train_labels, validation_data=(ids, labels), epochs=3, verbose=2)
    print(f"accuracy: {classifier.evaluate(ids, labels, verbose=0)[1]:.3f}")

    RunDirectory.create(args.out, "classification", tokenizer).save_model(model)
    shown = texts[:: len(texts) // 10 or 1]
    write_attention(args.out / "attention.html", model, tokenizer, shown)
    print(f"wrote {args.out / 'model.keras'}\nwrote {args.out / 'attention.html'}")
    export(args.out / "classifier.onnx", model, tokenizer, ids[:100], shown)


def make_model(vocabulary_size):
    """Returns a model from ids to the probability of "good" and the attention weights."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedded = keras.layers.Embedding(vocabulary_size, 100, mask_zero=True)(ids)  # (B, S, 100)
    embedded = keras.layers.Dropout(0.5)(embedded)
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))
    pooled, weights = AttentionPooling(64)(lstm(embedded), return_attention_scores=True)
    good = keras.layers.Dense(1, "sigmoid")(pooled)  # (B, 1)
    return keras.Model(ids, {"good": good, "attention": weights})


def encode(tokenizer, texts):
    """Returns ids of shape `(batch, time)`, padded on the right with 0."""
    return keras.utils.pad_sequences(tokenizer.encode(texts), padding="post")


def write_attention(path, model, tokenizer, texts):
    """Writes a page that colors the words by their attention weights."""
    ids = encode(tokenizer, texts)
    results = model.predict(ids, verbose=0)
    examples = []
    for row, good, weights in zip(ids, results["good"][:, 0], results["attention"], strict=True):
        pieces = tokenizer.pieces(row[row != 0])
        label = f"{LABELS[int(good > 0.5)]} ({max(good, 1 - good):.0%})"
        alignments = weights[: len(pieces)]
        examples.append(
            {"source_tokens": pieces, "target_tokens": [label], "alignments": alignments}
        )
    write_alignment_html(path, examples)


def export(path, model, tokenizer, sample, texts):
    """Writes an ONNX file that reads texts, and classifies texts with it, without Keras."""
    try:
        from keras_attn.export import export_functional_onnx

        report = export_functional_onnx(model, path, sample, tokenizer=tokenizer, labels=LABELS)
    except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
        print(f"No ONNX file. {error}")
        return
    print(f"wrote {path}, largest difference from Keras: {report.largest_difference:.1e}")
    from keras_attn_runtime import Classifier

    for text, result in zip(texts, Classifier(path).classify(texts), strict=True):
        piece = result.pieces[int(np.argmax(result.attention))]
        print(f"{text!r}: {result.label} ({result.probability:.0%}), attends most to {piece!r}")
    print(f"next: keras-attn-runtime classify {path} --format jsonl --attention < in.txt")


def find(data, split, side):
    """Returns the path of a text file."""
    for path in (data / f"{split}.{side}", data / f"{split}.{side}.gz"):
        if path.is_file():
            return path
    raise SystemExit(f"Expected the file {split}.{side} or {split}.{side}.gz. Received: {data}.")


def read_split(data, split):
    """Returns the texts of a split, and their labels. Blank lines are dropped."""
    sides = []
    for side in SIDES:
        path = find(data, split, side)
        sides.append([line.strip() for line in read_lines(path) if line.strip()])
        if not sides[-1]:
            raise SystemExit(f"Expected a text file with sentences. Received: {path}, without any.")
    return [*sides[0], *sides[1]], np.repeat([0, 1], [len(side) for side in sides])


def write_sentences(data):
    """Writes sentences in which "not" inverts the meaning of an adjective."""
    subjects = ["the film is", "its plot was", "a story that is", "music so", "old actors are"]
    adjectives = {"neg": ["bad", "dull", "not good", "not fun"]}
    adjectives["pos"] = ["good", "fun", "not bad", "not dull"]
    data.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 2000), ("valid", 250)):
        for side, words in adjectives.items():
            with atomic_replace(data / f"{split}.{side}", is_file=True) as partial:
                parts = (map(random.choice, (subjects, words, subjects)) for _ in range(count))
                text = "".join(f"{' '.join(each)}\n" for each in parts)
                partial.write_text(text, encoding="utf-8")
    return data


if __name__ == "__main__":
    main()
