"""How the speed of translation is measured on several sides.

A side is a script that takes the name of a file of settings, as JSON, and prints JSON. Each
measurement is a process of its own.
"""

import json
from pathlib import Path

import numpy as np
from own_process import run

from keras_attn.files import read_lines
from keras_attn.training import RunDirectory

MOST_OTHERS = 50  # sentences that are listed


def read_test_set(run_dir):
    """Source ids of the test set, sorted by length, and the lengths of the references.

    End tokens count in both.
    """
    sides, run = [], RunDirectory(run_dir)
    for side in ("source", "target"):
        tokenizer = getattr(run, f"{side}_tokenizer")
        encoded = tokenizer.encode(list(read_lines(run_dir / f"test.{side}")))
        sides.append([[*ids, tokenizer.end_token_id] for ids in encoded])
    pairs = sorted(zip(*sides, strict=True), key=lambda pair: len(pair[0]))
    return [source for source, _ in pairs], [len(target) for _, target in pairs]


def spread(items, number):
    """So many of the items, at equal distances, the first and the last among them."""
    return [items[i] for i in np.linspace(0, len(items) - 1, number).astype(int)]


def in_batches(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def measure_side(python, script, settings, folder, threads):
    """What a side prints, run in a process of its own."""
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    return run([python, Path(__file__).parent / script, path], threads)


def num_tokens(hypotheses, ended=True):
    """Tokens of pairs of ids and score; the ids of what has ended are without the end."""
    return sum(len(ids) + ended for ids, _ in hypotheses)


def agreement(ours, theirs):
    """How far two sides found the same best hypotheses, which are pairs of ids and score.

    Where they did not, `other_hypotheses` tells how much better ours is in each sentence.
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
