"""How the speed of translation is measured on several sides.

A side is a script that takes the name of a file of settings, as JSON, and prints JSON. Each
measurement is a process of its own.
"""

import json
from pathlib import Path

from own_process import run


def measure_side(python, script, settings, folder, threads):
    """What a side prints, run in a process of its own."""
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    return run([python, Path(__file__).parent / script, path], threads)


def num_tokens(hypotheses):
    """Tokens of pairs of ids and score, an end token for each counted."""
    return sum(len(ids) + 1 for ids, _ in hypotheses)


def agreement(ours, theirs):
    """How far two sides found the same best hypotheses, which are pairs of ids and score."""
    pairs = list(zip(ours, theirs, strict=True))
    differences = [abs(our[1] - their[1]) for our, their in pairs if our[0] == their[0]]
    found = {"equal_hypotheses": len(differences) / len(pairs)}
    if differences:
        found["largest_score_difference"] = max(differences)
    return found
