"""What the sides of `decode.py` and `decode_rnn.py` have in common."""

import json
import sys
import time
from pathlib import Path

import numpy as np


def read_settings():
    return json.loads(Path(sys.argv[1]).read_text())


def measure(translate, settings, versions):
    """Prints, as JSON, the seconds of each batch size and what was translated, batch by batch.

    Args:
        translate: function from padded ids, int32 `(B, S)`, to a pair for each sentence: its best
            ids, as a list without end and padding, and their score.
        settings: as from `read_settings`.
        versions: dict.
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
    """Lists of ids as one int32 array `(B, S)`, padded with 0 on the right."""
    source_ids = np.zeros((len(batch), max(map(len, batch))), np.int32)  # (B, S)
    for row, sentence in zip(source_ids, batch, strict=True):
        row[: len(sentence)] = sentence
    return source_ids


def best_hypotheses(token_ids, lengths, scores):
    """A pair of ids and score for each sentence, of arrays `(B, N, T)`, `(B, N)` and `(B, N)`."""
    return [
        (ids[0, : length[0]].tolist(), float(score[0]))
        for ids, length, score in zip(token_ids, lengths, scores, strict=True)
    ]
