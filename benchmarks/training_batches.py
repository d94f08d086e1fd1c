"""Batches for the benchmarks of training speed."""

from itertools import islice

import numpy as np

from keras_attn.text import (
    EncodedSentences,
    LengthBucketedBatches,
    ParallelCorpus,
    SentencePieceTokenizer,
)


def read_corpus(args, vocabulary_size, directory):
    """Returns the sentence pairs and the size of their vocabulary, at most `vocabulary_size`."""
    if args.data is None:
        return generated_corpus(vocabulary_size, args.seed), vocabulary_size
    paths = [find_file(args.data, suffix) for suffix in (args.source, args.target)]
    tokenizer = SentencePieceTokenizer.train(paths, vocabulary_size, "bpe")
    corpus = ParallelCorpus.encode(*paths, tokenizer, tokenizer, 256, 256, directory / "corpus")
    return corpus, tokenizer.vocabulary_size


def find_file(data, suffix):
    names = [f"train.{suffix}", f"train.{suffix}.gz"]
    found = [data / name for name in names if (data / name).exists()]
    if not found:
        raise SystemExit(f"Expected {names[0]} (or .gz) in {data}. Received: no such file.")
    return found[0]


def generated_corpus(vocabulary_size, seed, num_pairs=29000):
    """Returns random ids with the lengths of English and German captions in 8,000 subwords.

    The lengths are approximately log-normal. The logarithm of the English lengths is 2.61 +- 0.32;
    the logarithm of the German lengths is larger by 0.02 +- 0.18.
    """
    rng = np.random.default_rng(seed)
    log_lengths = rng.normal(2.61, 0.32, num_pairs)
    sides = []
    for logs in (log_lengths, log_lengths + rng.normal(0.02, 0.18, num_pairs)):
        lengths = np.clip(np.exp(logs).round().astype(int), 5, 50)
        # Token frequencies decrease with their rank, as in text.
        ids = np.exp(rng.uniform(np.log(4), np.log(vocabulary_size), lengths.sum()))
        sides.append(EncodedSentences(ids.astype("int32"), np.cumsum([0, *lengths])))
    return ParallelCorpus(*sides)


def write_batches(corpus, args, num_steps, path):
    """Writes the first batches of a training; the name of each array is `name_step`."""
    batches = LengthBucketedBatches(corpus, args.tokens_per_batch, seed=args.seed)
    arrays = {}
    for step, (inputs, labels) in enumerate(islice(batches.stream(), num_steps)):
        for name, ids in {**inputs, "labels": labels}.items():
            arrays[f"{name}_{step}"] = ids
    np.savez(path, **arrays)
