"""Adds attention to a custom Keras model: a BiLSTM that classifies reviews as good or bad."""

import argparse
from pathlib import Path
from random import choice

import keras
import numpy as np

from keras_attn import BahdanauAttention
from keras_attn.export import export_functional_onnx
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.training import RunDirectory
from keras_attn.visualize import plot_alignments

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="folder of {train,valid}.{pos,neg} text files")
parser.add_argument("--out", type=Path, default=Path("build/classifier"), help="output directory")
args = parser.parse_args()
if problem := separate_paths_problem({"--out": args.out}, {"--data": args.data}, only_equal=True):
    parser.error(problem)
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(1)


def read(split):
    if args.data is not None:
        bad, good = (list(read_lines(args.data / f"{split}.{side}")) for side in ("neg", "pos"))
        return bad + good, np.repeat([0, 1], [len(bad), len(good)])
    subjects = ["the film is", "its plot was", "a story that is", "music so", "old actors are"]
    words = ["bad", "dull", "not good", "not fun", "good", "fun", "not bad", "not dull"]
    labels = np.random.randint(8, size=4000 if split == "train" else 500)
    return [f"{choice(subjects)} {words[i]} {choice(subjects)}" for i in labels], labels // 4


(texts, labels), (valid_texts, valid_labels) = read("train"), read("valid")
vectorize = keras.layers.TextVectorization(10000)
vectorize.adapt(texts)
train_ids, valid_ids = (np.array(vectorize(lines)) for lines in (texts, valid_texts))  # (N, S)

ids = keras.Input((None,), dtype="int32", name="ids")
embedded = keras.layers.Embedding(vectorize.vocabulary_size(), 100, mask_zero=True)(ids)
lstm = keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True, return_state=True))
states, forward, _, backward, _ = lstm(keras.layers.Dropout(0.5)(embedded))  # (B, S, 128)
query = keras.layers.Reshape((1, 128))(keras.layers.Concatenate()([forward, backward]))
context, attention = BahdanauAttention(64)(query, states, return_attention_scores=True)
good = keras.layers.Dense(1, "sigmoid", name="good")(keras.layers.Flatten()(context))

trainer = keras.Model(ids, good)
trainer.compile("adam", "binary_crossentropy", metrics=["accuracy"])
trainer.fit(train_ids, labels, validation_data=(valid_ids, valid_labels), epochs=3, verbose=2)
model = keras.Model(ids, {"good": good, "attention": attention})
with atomic_replace(args.out / "vocabulary.txt") as partial:
    vectorize.save_assets(partial.parent)
files = {"vocabulary": "vocabulary.txt"}
RunDirectory.create(args.out, "classification", files=files).save_model(model)
exported = export_functional_onnx(model, args.out / "classifier.onnx", valid_ids[:100])
error = exported.largest_difference
accuracy = trainer.evaluate(valid_ids, valid_labels, verbose=0)[1]
print(f"accuracy: {accuracy:.3f}, largest difference between Keras and ONNX: {error:.1e}")
shown = valid_ids[valid_ids.any(axis=1)][:1]  # skip blank lines
words = np.array(vectorize.get_vocabulary())[shown[shown != 0]]
weights = model.predict(shown, verbose=0)["attention"][0, :, : len(words)]  # (1, S)
axes = plot_alignments(weights / weights.max(), words, ["relative weight"])
with atomic_replace(args.out / "attention.png") as partial:
    axes.figure.savefig(partial)
