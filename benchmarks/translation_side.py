"""Code shared by the sides of `decode.py` and `decode_rnn.py`."""

import json
import sys
import time
from pathlib import Path

import numpy as np


def read_settings():
    return json.loads(Path(sys.argv[1]).read_text())


def measure(translate, settings, versions):
    """Translates batch by batch. Prints the seconds and hypotheses of each batch size as JSON.

    Args:
        translate: function that takes padded ids, int32 `(B, S)`, and returns a pair for each
            sentence: its best ids, as a list without end token and padding, and their score.
        settings: dict returned by `read_settings`.
        versions: dict of package versions.
    """
    rows = {}
    for size, batches in settings["batches"].items():
        for batch in batches[:2]:
            translate(pad(batch))
        begin = time.perf_counter()
        hypotheses = [found for batch in batches for found in translate(pad(batch))]
        rows[size] = {"seconds": time.perf_counter() - begin, "hypotheses": hypotheses}
    print(json.dumps({"rows": rows, "versions": versions}))


def pad(batch):
    """Returns lists of ids as one int32 array `(B, S)`, padded with 0 on the right."""
    source_ids = np.zeros((len(batch), max(map(len, batch))), np.int32)  # (B, S)
    for row, sentence in zip(source_ids, batch, strict=True):
        row[: len(sentence)] = sentence
    return source_ids


def best_hypotheses(token_ids, lengths, scores):
    """Returns the best ids and score of each sentence, from `(B, N, T)`, `(B, N)` and `(B, N)`."""
    return [
        (ids[0, : length[0]].tolist(), float(score[0]))
        for ids, length, score in zip(token_ids, lengths, scores, strict=True)
    ]
