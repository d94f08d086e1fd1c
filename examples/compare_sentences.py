"""Classifies whether two sentences have the same meaning, with a decomposable attention model.

    python examples/compare_sentences.py

This command trains on generated English sentences. In a positive pair, the second sentence states
the same facts in a different order and with synonyms. In a negative pair, one word of the second
sentence has a different meaning.

With `--data FILE`, the example reads a text file with a sentence and its translation in each line,
separated by a tab: `paste train.en train.de > FILE` joins parallel files. A positive pair is a
sentence and its translation. In a negative pair, the translation is replaced by a similar sentence.
"""

import argparse
from pathlib import Path
from random import choice, randint, sample, shuffle

import keras
import numpy as np

from keras_attn import decomposable_attention_classifier
from keras_attn.files import read_lines, separate_paths_problem, write_lines
from keras_attn.text import SentencePieceTokenizer, prepare_pairs
from keras_attn.training import RunDirectory
from keras_attn.visualize import write_alignment_html

WORDS = (  # two words for each meaning
    ["big large", "small little", "fast quick", "happy glad", "sick ill", "rich wealthy"],
    ["dog hound", "stone rock", "child kid", "woman lady", "man guy", "thief robber"],
    ["runs races", "speaks talks", "yells shouts", "looks stares", "starts begins", "ends stops"],
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="file of pairs. Default: generated sentences")
    parser.add_argument(
        "--out", type=Path, default=Path("build/compare"), help="folder. Default: %(default)s"
    )
    args = parser.parse_args()
    paths = {"--out": args.out}, {"--data": args.data}
    if problem := separate_paths_problem(*paths, only_equal=True):
        parser.error(problem)
    args.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(1)
    splits = read(args.data, args.out / "data") if args.data else map(generate, (8000, 1000))
    train, test = splits

    write_lines(args.out / "train.txt", train[0] + train[1])
    tokenizer = SentencePieceTokenizer.train(args.out / "train.txt", 8000, "bpe")
    train_ids, test_ids = ([encode(tokenizer, x) for x in each[:2]] for each in (train, test))
    initializer = keras.initializers.RandomNormal(stddev=0.3)  # or the attention stays uniform
    embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 200, initializer)
    model = decomposable_attention_classifier(embedding, 2, dropout=0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-4), loss, metrics=["accuracy"])
    model.fit(train_ids, train[2], batch_size=64, epochs=10, verbose=2)
    accuracy = model.evaluate(test_ids, test[2], verbose=0)[1]
    print(f"accuracy: {accuracy:.4f} of {len(test[2])} pairs")

    _, _, over_second, over_first = model.get_layer("align").output  # (B, T, S), (B, S, T)
    outputs = {"logits": model.output, "over_second": over_second, "over_first": over_first}
    model = keras.Model(model.inputs, outputs)
    run = RunDirectory.create(args.out, "classification", tokenizer)
    run.save_model(model)
    shown = [ids[test[2].nonzero()[0][:8]] for ids in test_ids]
    write_attention(args.out / "attention.html", model, tokenizer, shown)
    print(f"wrote {run.model_path}\nwrote {args.out / 'attention.html'}")
    try:
        from keras_attn.export import export_functional_onnx

        sample = [ids[:100] for ids in test_ids]
        report = export_functional_onnx(model, args.out / "compare.onnx", sample)
        print(f"wrote {args.out / 'compare.onnx'}. {report}")
    except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
        print(f"No ONNX file. {error}")


def generate(count):
    """Generates pairs of sentences with one to three facts, and labels (1: same meaning)."""
    firsts, seconds, labels = [], [], np.arange(count) % 2
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


def read(path, folder):
    """Returns the pairs of a file for training and test, see `add_wrong_pairs`."""
    try:
        counts = prepare_pairs(path, folder)
        for split, count in counts.items():
            print(f"{split}: {count.pairs} pairs from {count.origin}, {count.empty} blank lines")
        names = [
            [f"{split}.{side}" for side in ("source", "target")] for split in ("train", "test")
        ]
        return [add_wrong_pairs(*(list(read_lines(folder / x)) for x in each)) for each in names]
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


def add_wrong_pairs(firsts, seconds):
    """Returns sentences, each paired with its translation and with a wrong one."""
    words = [set(text.lower().split()) for text in seconds]
    if len(set(map(frozenset, words))) < 2:
        raise ValueError(f"Expected pairs of different sentences. Received: {len(firsts)} pairs.")
    others = []
    for own in words:
        drawn = sample(range(len(words)), min(200, len(words)))
        rivals = [row for row in drawn if words[row] != own]
        rivals = rivals or [row for row in range(len(words)) if words[row] != own]
        shared = [len(own & words[row]) / len(own | words[row]) for row in rivals]
        others.append(seconds[rivals[int(np.argmax(shared))]])
    return firsts * 2, seconds + others, np.repeat([1, 0], len(firsts))


def encode(tokenizer, texts):
    """Returns ids `(batch, time)`, padded on the right.

    As in the paper, every sentence begins with an additional token. Words without a counterpart in
    the other sentence align with it.
    """
    rows = [[tokenizer.start_token_id, *ids[:31]] for ids in tokenizer.encode(texts)]
    return keras.utils.pad_sequences(rows, padding="post")


def write_attention(path, model, tokenizer, pairs):
    """Writes a page with the words of the second sentence that align with those of the first."""
    weights = model.predict(pairs, verbose=0)["over_second"]  # (B, T, S)
    examples = []
    for alignments, *pair in zip(weights, *pairs, strict=True):
        first, second = (["(none)", *tokenizer.pieces(ids[ids != 0][1:])] for ids in pair)
        alignments = alignments[: len(first), : len(second)]  # (T, S)
        examples.append({"source_tokens": second, "target_tokens": first, "alignments": alignments})
    write_alignment_html(path, examples, "What each word is aligned with")


if __name__ == "__main__":
    main()
