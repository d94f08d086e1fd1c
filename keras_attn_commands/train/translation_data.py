"""Warnings about the text of a translator, before its training."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from keras_attn.files import read_lines
from keras_attn.text import PairCounts
from keras_attn.text._generated_dates import Split
from keras_attn_commands.train.setting_warnings import warn_of_examples
from keras_attn_commands.train.settings import Warn

_LINES = 20_000
"""Number of lines of a file that are compared."""


def warn_of_data(folder: Path, counts: Mapping[Split, PairCounts], warn: Warn) -> None:
    """Warns of blank sides, of repetitions of training pairs, and of exchanged languages.

    Args:
        folder: Path of the directory with the files of `prepare_pairs`.
        counts: Dict that `prepare_pairs` returned.
        warn: Function that shows the text of a warning.
    """
    for split, count in counts.items():
        warn_of_examples(
            split,
            count.pairs,
            count.empty,
            count.repeated,
            "pairs",
            warn,
            count.empty_lines,
            count.origin.removeprefix("a part of "),
        )
        if split != "train" and _is_exchanged(folder, split):
            warn(
                f"The sources of {split} share more words with the targets than with the sources "
                "of the training data: the two languages may be exchanged in one of the files."
            )


def _is_exchanged(folder, split):
    """Whether a source shares more words with the training targets, and a target with sources."""
    training = {side: _words(folder / f"train.{side}") for side in ("source", "target")}
    held_out = {side: _words(folder / f"{split}.{side}") for side in ("source", "target")}

    def shared(side, other):
        return len(held_out[side] & training[other]) / max(1, len(held_out[side]))

    return (
        shared("source", "target") > shared("source", "source") + 0.1
        and shared("target", "source") > shared("target", "target") + 0.1
    )


def _words(path):
    return {word.lower() for line in islice(read_lines(path), _LINES) for word in line.split()}
