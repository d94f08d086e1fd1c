"""What the sides of `decode_rnn.py` for the SavedModel and for PyTorch have in common."""

import json
import sys
import time
from pathlib import Path

import numpy as np


def read_settings():
    return json.loads(Path(sys.argv[1]).read_text())


def measure(translate, settings, versions):
    """Prints, as JSON, the seconds of each batch size and what was translated.

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
    source_ids = np.zeros((len(batch), max(map(len, batch))), np.int32)  # (B, S)
    for row, sentence in zip(source_ids, batch, strict=True):
        row[: len(sentence)] = sentence
    return source_ids
