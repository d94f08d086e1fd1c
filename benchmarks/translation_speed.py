"""Measures the translation speed of several sides.

A side is a script. Its argument is the path of a JSON file of settings, and it prints its results
as JSON. Each measurement runs in a separate process.
"""

import json
from pathlib import Path

import numpy as np
from own_process import run

from keras_attn.files import read_lines
from keras_attn.training import RunDirectory

MOST_OTHERS = 50  # maximum number of listed sentences


def read_test_set(run_dir):
    """Returns the source ids of the test set, sorted by length, and the lengths of the references.

    Source ids and lengths include the end tokens.
    """
    sides, run = [], RunDirectory(run_dir)
    for side in ("source", "target"):
        tokenizer = getattr(run, f"{side}_tokenizer")
        encoded = tokenizer.encode(list(read_lines(run_dir / f"test.{side}")))
        sides.append([[*ids, tokenizer.end_token_id] for ids in encoded])
    pairs = sorted(zip(*sides, strict=True), key=lambda pair: len(pair[0]))
    return [source for source, _ in pairs], [len(target) for _, target in pairs]


def spread(items, number):
    """Returns `number` items at equal distances, including the first and the last."""
    return [items[i] for i in np.linspace(0, len(items) - 1, number).astype(int)]


def in_batches(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def measure_side(python, script, settings, folder, threads):
    """Runs a side in a separate process and returns its output."""
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    return run([python, Path(__file__).parent / script, path], threads)


def num_tokens(hypotheses, ended=True):
    """Returns the number of tokens of hypotheses, whose ids do not include the end token."""
    return sum(len(ids) + ended for ids, _ in hypotheses)


def agreement(ours, theirs):
    """Compares the best hypotheses of two sides.

    Args:
        ours: List of tuples `(ids, score)`, one per sentence.
        theirs: List of the same length.

    Returns:
        Dict with `equal_hypotheses`, the fraction of sentences with the same ids on both sides;
        `largest_score_difference` of these sentences; and, unless there are many,
        `other_hypotheses`: our score minus theirs for each of the other sentences.
    """
    pairs = list(zip(ours, theirs, strict=True))
    differences = [abs(our[1] - their[1]) for our, their in pairs if our[0] == their[0]]
    others = sorted(round(our[1] - their[1], 6) for our, their in pairs if our[0] != their[0])
    found = {"equal_hypotheses": len(differences) / len(pairs)}
    if differences:
        found["largest_score_difference"] = max(differences)
    if 0 < len(others) <= MOST_OTHERS:
        found["other_hypotheses"] = others
    return found
