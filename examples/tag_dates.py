"""Tags each character of a written date as day, month, year, weekday or other text.

    python examples/tag_dates.py

This is an aligned many-to-many task: one output for each element of the sequence. With `--data
DIR`, it tags the words of your own files, for example with parts of speech. The output directory
contains the model, its words and tags, and, if the backend of Keras is TensorFlow, an ONNX file.
"""

import argparse
import datetime
import json
import random
import re
from pathlib import Path

import keras
import numpy as np

from keras_attn import RotaryPositions, TransformerEncoder, TransformerEncoderBlock
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.training import RunDirectory

TRAIN, TEST, EPOCHS = 6000, 2000, 8
TAGS = dict(A="W", a="W", d="D", m="M", B="M", b="M", Y="Y", y="Y")
"""Dict from format codes of `strftime` to tags."""
FORMATS = """
    %d %B %Y|%A, %d %B %Y|%a %d %b '%y|the %dth of %B, %Y|%B %d, %Y|%b %d '%y|%d-%b-%Y|%A %d/%m/%Y
    |%d/%m/%y|%d.%m.%Y|%Y-%m-%d|%Y/%m/%d|on %A, %B the %dth, %Y|%d %b %y, a %A|in %B %Y on the %dth
""".split("|")

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument(
    "--data",
    type=Path,
    help="folder of {train,test}.{words,tags}, files of words and tags with spaces between them",
)
parser.add_argument("--out", type=Path, default=Path("build/tagger"), help="folder of the results")
args = parser.parse_args()
if problem := separate_paths_problem({"--out": args.out}, {"--data": args.data}, only_equal=True):
    parser.error(problem)
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(1)


def generate(split, count):
    """Returns the characters of written dates, and a tag for each."""
    rng, tokens, tags = random.Random(split), [], []
    for _ in range(count):
        # Every tenth day belongs to the test data.
        day = 10 * rng.randrange(3650) + (0 if split == "test" else rng.randrange(1, 10))
        date = datetime.date(1950, 1, 1) + datetime.timedelta(day)
        parts = re.split("(%[a-zA-Z])", rng.choice(FORMATS).strip())
        texts = [date.strftime(part) for part in parts]
        tokens.append(list("".join(texts)))
        pairs = zip(parts, texts, strict=True)
        tags.append([TAGS.get(part[1:], "O") for part, text in pairs for _ in text])
    return tokens, tags


def read(split):
    if args.data is None:
        return generate(split, TRAIN if split == "train" else TEST)
    paths = [args.data / f"{split}.{side}" for side in ("words", "tags")]
    tokens, tags = ([line.split() for line in read_lines(path)] for path in paths)
    for number, (words, labels) in enumerate(zip(tokens, tags, strict=True), start=1):
        if len(words) != len(labels):
            raise SystemExit(
                f"Expected a tag for each word. Received: {len(words)} words and {len(labels)} "
                f"tags in line {number} of {paths[0]} and {paths[1]}."
            )
    return list(filter(None, tokens)), list(filter(None, tags))  # without blank lines


def ids_of(sequences, vocabulary, unknown):
    """Returns int32 ids `(N, longest)`, padded with 0."""
    ids = np.zeros((len(sequences), max(map(len, sequences))), "int32")
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = [vocabulary.get(each, unknown) for each in sequence]
    return ids


(tokens, tags), (test_tokens, test_tags) = read("train"), read("test")
names = ["", "[UNK]", *sorted({token for sequence in tokens for token in sequence})]
tag_names = ["", *sorted({tag for sequence in tags for tag in sequence})]
words, labels = ({name: i for i, name in enumerate(each)} for each in (names, tag_names))
ids, targets = ids_of(tokens, words, 1), ids_of(tags, labels, 0)
test_ids, test_targets = ids_of(test_tokens, words, 1), ids_of(test_tags, labels, 0)

embedding = keras.layers.Embedding(len(names), 64)
block = TransformerEncoderBlock(4, 128, dropout=0.1, rotary=RotaryPositions())
encoder = TransformerEncoder(block, embedding, num_layers=2, name="encoder")
inputs = keras.Input((None,), dtype="int32", name="ids")
logits = keras.layers.Dense(len(tag_names), name="tags")(encoder(inputs)["encoder_outputs"])
model = keras.Model(inputs, {"tags": logits})
model.compile(
    keras.optimizers.Adam(2e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
)
is_token = (ids != 0).astype("float32")  # padding has the weight 0 in loss and accuracy
model.fit(
    ids,
    {"tags": targets},
    sample_weight={"tags": is_token},
    batch_size=64,
    epochs=EPOCHS,
    verbose=2,
)

found = model.predict(test_ids, verbose=0)["tags"].argmax(-1)
is_token = test_ids != 0
right = (found == test_targets) | ~is_token
report = {
    "accuracy": float(right[is_token].mean()),
    "sequences_without_error": float(right.all(axis=1).mean()),
    "sequences": len(test_ids),
}
for name, entries in (("words", names), ("tags", tag_names)):
    with atomic_replace(args.out / f"{name}.json") as partial:
        partial.write_text(json.dumps(entries, ensure_ascii=False), "utf-8")
files = {"words": "words.json", "tags": "tags.json"}
RunDirectory.create(args.out, "tagging", files=files).save_model(model)
print(f"wrote {args.out / 'model.keras'}")
try:
    from keras_attn.export import export_functional_onnx

    exported = export_functional_onnx(model, args.out / "tagger.onnx", test_ids[:100])
    report["largest_onnx_difference"] = exported.largest_difference
    print(f"wrote {args.out / 'tagger.onnx'}")
except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
    print(f"No ONNX file. {error}")
with atomic_replace(args.out / "results.json") as partial:
    partial.write_text(json.dumps(report, indent=2))
shown = test_tokens[0]
separator = "" if args.data is None else " "
print(separator.join(shown), separator.join(tag_names[i] for i in found[0, : len(shown)]), sep="\n")
print(", ".join(f"{name}: {value:.4g}" for name, value in report.items()))
