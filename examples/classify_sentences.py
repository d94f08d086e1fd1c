"""Trains a bidirectional LSTM with attention that assigns labels to sentences.

    python examples/classify_sentences.py

This command uses generated film reviews. To use your own data, pass `--data PATH`: a table with a
label and a text in each line, or a directory with the text files `train.LABEL` and `valid.LABEL`
(see `keras_attn.text.read_labelled_texts`). The output directory then contains the model, a page
with the attention of some sentences, and, if the backend of Keras is TensorFlow, an ONNX file that
reads texts. `keras-attn-runtime classify` runs this file. `keras-attn train classifier` is the
complete program.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

from keras_attn import AttentionPooling
from keras_attn.files import separate_paths_problem, write_lines
from keras_attn.text import (
    LabelledBatches,
    LabelledTexts,
    SentencePieceTokenizer,
    generate_reviews,
    read_labelled_texts,
)
from keras_attn.training import RunDirectory
from keras_attn.visualize import write_alignment_html


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, help="table or directory of labelled texts. Default: generated reviews"
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
    train, valid = read(args.data)
    labels = sorted(set(train.labels))

    args.out.mkdir(parents=True, exist_ok=True)
    write_lines(args.out / "train.txt", train.texts)
    tokenizer = SentencePieceTokenizer.train(args.out / "train.txt", 8000, "bpe")
    batches, valid_batches = (
        LabelledBatches(
            tokenizer.encode(each.texts),
            [labels.index(label) for label in each.labels],
            batch_size=32,
            length_multiple=8,  # fewer shapes to compile on JAX
        )
        for each in (train, valid)
    )
    model = make_model(tokenizer.vocabulary_size, len(labels))
    # The classifier has the layers of `model`, but not its output of attention weights.
    classifier = keras.Model(model.input, model.output["probabilities"])
    classifier.compile(
        keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    classifier.fit(batches, validation_data=valid_batches, epochs=3, verbose=2)
    print(f"accuracy: {classifier.evaluate(valid_batches, verbose=0)[1]:.3f}")

    RunDirectory.create(args.out, "classification", tokenizer, labels=labels).save_model(model)
    shown = valid.texts[:: len(valid.texts) // 10 or 1]
    write_attention(args.out / "attention.html", model, tokenizer, labels, shown)
    print(f"wrote {args.out / 'model.keras'}\nwrote {args.out / 'attention.html'}")
    export(args.out / "classifier.onnx", model, tokenizer, labels, shown)


def read(data):
    """Returns the texts and labels for training and validation."""
    if data is None:
        splits = (generate_reviews(4000), generate_reviews(500, split="valid"))
        return [LabelledTexts(*each) for each in splits]
    try:
        splits = read_labelled_texts(data)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    for split, each in splits.items():
        print(f"{split}: {len(each.texts)} texts from {each.origin}, {each.empty} blank lines")
    return splits["train"], splits["valid"]


def make_model(vocabulary_size, num_classes):
    """Returns a model from ids to the probability of each class and the attention weights."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedded = keras.layers.Embedding(vocabulary_size, 100, mask_zero=True)(ids)  # (B, S, 100)
    embedded = keras.layers.Dropout(0.5)(embedded)
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))
    pooled, weights = AttentionPooling(64)(lstm(embedded), return_attention_scores=True)
    probabilities = keras.layers.Dense(num_classes, "softmax")(pooled)  # (B, classes)
    return keras.Model(ids, {"probabilities": probabilities, "attention": weights})


def encode(tokenizer, texts):
    """Returns ids of shape `(batch, time)`, padded on the right with 0."""
    return keras.utils.pad_sequences(tokenizer.encode(texts), padding="post")


def write_attention(path, model, tokenizer, labels, texts):
    """Writes a page that colors the words by their attention weights."""
    ids = encode(tokenizer, texts)
    results = model.predict(ids, verbose=0)
    examples = []
    pairs = zip(results["probabilities"], results["attention"], strict=True)
    for row, (probabilities, weights) in zip(ids, pairs, strict=True):
        pieces = tokenizer.pieces(row[row != 0])
        best = int(probabilities.argmax())
        examples.append(
            {
                "source_tokens": pieces,
                "target_tokens": [f"{labels[best]} ({probabilities[best]:.0%})"],
                "alignments": weights[: len(pieces)],
            }
        )
    write_alignment_html(path, examples)


def export(path, model, tokenizer, labels, texts):
    """Writes an ONNX file that reads texts, and classifies texts with it, without Keras."""
    sample = encode(tokenizer, texts)
    try:
        from keras_attn.export import export_functional_onnx

        report = export_functional_onnx(model, path, sample, tokenizer=tokenizer, labels=labels)
    except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
        print(f"No ONNX file. {error}")
        return
    print(f"wrote {path}, largest difference from Keras: {report.largest_difference:.1e}")
    from keras_attn_runtime import Classifier

    for text, result in zip(texts, Classifier(path).classify(texts), strict=True):
        piece = result.pieces[int(np.argmax(result.attention))]
        print(f"{text!r}: {result.label} ({result.probability:.0%}), attends most to {piece!r}")
    print(f"next: keras-attn-runtime classify {path} --format jsonl --attention < in.txt")


if __name__ == "__main__":
    main()
