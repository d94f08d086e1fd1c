"""Classifies whether two sentences have the same meaning, with a decomposable attention model.

    python examples/compare_sentences.py

This command trains on generated English sentences. In a positive pair, the second sentence states
the same facts in a different order and with synonyms. A negative pair is made in the same way, but
one word of the second sentence has a different meaning.

With `--data DIR`, the example reads `DIR/train.*` and `DIR/test*.*`, text files in two languages. A
positive pair is a sentence and its translation. In a negative pair, the translation is replaced by
a similar sentence.
"""

import argparse
import json
import time
from pathlib import Path
from random import choice, randint, sample, shuffle

import keras
import numpy as np

from keras_attn import decomposable_attention_classifier
from keras_attn.export import export_functional_onnx
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.training import RunDirectory
from keras_attn.visualize import plot_alignments, write_alignment_html

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--data", type=Path, help="folder of parallel text files")
parser.add_argument("--languages", nargs=2, default=["en", "de"], help="endings of the files")
parser.add_argument(
    "--max-distance", type=int, help="maximum distance of attention within a sentence"
)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--learning-rate", type=float, default=5e-4)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", type=Path, default=Path("build/compare"), help="output directory")
args = parser.parse_args()
if problem := separate_paths_problem({"--out": args.out}, {"--data": args.data}, only_equal=True):
    parser.error(problem)
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(args.seed)

WORDS = (  # two words for each meaning
    ["big large", "small little", "fast quick", "happy glad", "sick ill", "rich wealthy"],
    ["dog hound", "stone rock", "child kid", "woman lady", "man guy", "thief robber"],
    ["runs races", "speaks talks", "yells shouts", "looks stares", "starts begins", "ends stops"],
)


def generated(pairs):
    """Generates pairs of sentences with one to three facts, and labels (1: same meaning)."""
    firsts, seconds, labels = [], [], np.arange(pairs) % 2
    for is_same in labels:
        number = randint(1, 3)
        *facts, unused = map(list, zip(*(sample(each, number + 1) for each in WORDS), strict=True))
        firsts.append(in_words(facts))
        if not is_same:
            place = choice(range(3))
            choice(facts)[place] = unused[place]
        shuffle(facts)
        seconds.append(in_words(facts))
    return firsts, seconds, labels


def in_words(facts):
    sides = [" ".join(choice(meaning.split()) for meaning in fact) for fact in facts]
    return " and ".join(f"the {side}" for side in sides)


def find_files(split):
    """Returns the two files of a split, whose names only differ in the language."""
    first, second = (
        {
            path.name.removesuffix(".gz").removesuffix(f".{language}"): path
            for pattern in (f"{split}*.{language}.gz", f"{split}*.{language}")
            for path in args.data.glob(pattern)
        }
        for language in args.languages
    )
    names = sorted(first.keys() & second.keys())
    if not names:
        raise SystemExit(f"No {split}*.LANGUAGE for both of {args.languages} in {args.data}.")
    return first[names[0]], second[names[0]]


def translated(split):
    """Returns sentences, each paired with its translation and with a wrong translation."""
    firsts, seconds = (list(read_lines(path)) for path in find_files(split))
    if len(firsts) != len(seconds):
        raise SystemExit(f"Expected pairs of {split}. Received: {len(firsts)} and {len(seconds)}.")
    words = [set(text.lower().split()) for text in seconds]
    if len(set(map(frozenset, words))) < 2:
        raise SystemExit(f"Expected pairs of different sentences. Received: {len(firsts)} pairs.")
    others = []
    for row, own in enumerate(words):
        drawn = sample(range(len(words)), min(200, len(words)))
        rivals = [each for each in drawn if words[each] != words[row]]
        rivals = rivals or [each for each in range(len(words)) if words[each] != words[row]]
        others.append(seconds[max(rivals, key=lambda r: len(own & words[r]) / len(own | words[r]))])  # noqa: B023
    return firsts * 2, seconds + others, np.repeat([1, 0], len(firsts))


train, test = map(translated, ("train", "test")) if args.data else map(generated, (8000, 1000))
vectorize = keras.layers.TextVectorization(20000)
vectorize.adapt(train[0] + train[1])
# As in the paper, every sentence begins with an additional token. Words without a counterpart in
# the other sentence align with it.
vocabulary = [*vectorize.get_vocabulary(), "(none)"]


def ids_of(texts):
    ids = np.array(vectorize(texts))[:, :30]  # (N, T)
    return np.pad(ids, [(0, 0), (1, 0)], constant_values=len(vocabulary) - 1)


train_ids, test_ids = ([ids_of(texts) for texts in split[:2]] for split in (train, test))
# With the small initial embeddings of Keras, the attention weights remain uniform for a long time.
initializer = keras.initializers.RandomNormal(stddev=0.3)
embedding = keras.layers.Embedding(len(vocabulary), 200, initializer)
model = decomposable_attention_classifier(
    embedding, 2, max_distance=args.max_distance, dropout=args.dropout
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(args.learning_rate)
model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
started = time.process_time()
model.fit(train_ids, train[2], batch_size=64, epochs=args.epochs, verbose=2)

report = {
    "accuracy": model.evaluate(test_ids, test[2], verbose=0)[1],
    "pairs": len(test[2]),
    "cpu_minutes": (time.process_time() - started) / 60,
    "arguments": vars(args),
}
_, _, over_second, over_first = model.get_layer("align").output  # (B, T, S), (B, S, T)
outputs = {"logits": model.output, "over_second": over_second, "over_first": over_first}
model = keras.Model(model.inputs, outputs)
with atomic_replace(args.out / "vocabulary.txt") as partial:
    partial.write_text("\n".join(vocabulary), encoding="utf-8")
files = {"vocabulary": "vocabulary.txt"}
RunDirectory.create(args.out, "classification", files=files).save_model(model)
try:
    sample = [ids[:100] for ids in test_ids]
    exported = export_functional_onnx(model, args.out / "compare.onnx", sample)
    error = exported.largest_difference
    report["largest_onnx_difference"] = error
finally:  # keep the results even if the export fails
    with atomic_replace(args.out / "results.json") as partial:
        partial.write_text(json.dumps(report, indent=2, default=str))
print(f"accuracy: {report['accuracy']:.4f}, largest difference between Keras and ONNX: {error:.1e}")

rows = test[2].nonzero()[0][:8]
weights = model.predict([ids[rows] for ids in test_ids], verbose=0)["over_second"]  # (8, T, S)
examples = []
for alignments, *pair in zip(weights, *(ids[rows] for ids in test_ids), strict=True):
    first, second = ([vocabulary[i] for i in ids if i != 0] for ids in pair)
    alignments = alignments[: len(first), : len(second)]  # (T, S)
    examples.append({"source_tokens": second, "target_tokens": first, "alignments": alignments})
write_alignment_html(args.out / "attention.html", examples, "What each word is aligned with")
with atomic_replace(args.out / "attention.png") as partial:
    plot_alignments(**examples[0]).figure.savefig(partial)
