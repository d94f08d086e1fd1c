import html
import json
import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.visualize.alignment_tokens import WORD_START, checked_alignments, label_of

TEMPLATE = Path(__file__).with_name("alignments.html")


def write_alignment_html(
    path: str | PathLike[str], examples: Iterable[Mapping[str, Any]], title: str = "Attention"
) -> None:
    """Writes a page to explore translations in: point at a word and see what it looked at.

    One file with everything in it, which needs no network. The words are coloured by their weights,
    lines lead to them, and a heat map stands below. The keyboard alone is enough, scripts may run
    in either direction, and where there are several heads or layers, they can be chosen.

    Args:
        path: name of the file; an existing one is replaced.
        examples: list of dicts, one for each sentence:
            `source_tokens`: list of strings, as in `plot_alignments`;
            `target_tokens`: list of strings;
            `alignments`: array-like `(target_length, source_length)` or `(heads, target_length,
            source_length)` of numbers from 0 to 1, or a dict of these by the name of their layer;
            padding is cut off before.
        title: String. Heading of the page. Default `"Attention"`.

    Raises:
        ValueError: if there is no example, one lacks something, or its weights do not fit its
            tokens.

    Example:

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> example = {
    ...     "source_tokens": ["▁zwei", "▁Hunde"],
    ...     "target_tokens": ["▁two", "▁dogs"],
    ...     "alignments": [[0.9, 0.1], [0.2, 0.8]],
    ... }
    >>> write_alignment_html(folder.name + "/attention.html", [example])
    >>> folder.cleanup()
    """
    examples = [_page_data(example) for example in examples]
    if not examples:
        raise ValueError("`examples` must have at least one sentence. Received: examples=[]")
    parts = {
        "title": html.escape(title),
        # Inside of a script element, "<" could end it.
        "examples": json.dumps(examples, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    page = re.sub(r"\{\{(title|examples)\}\}", lambda match: parts[match[1]], template)
    with atomic_replace(path, is_file=True) as partial:
        partial.write_text(page, encoding="utf-8")


def _page_data(example):
    """What the page needs of an example: labels, texts, and weights by their names."""
    missing = {"source_tokens", "target_tokens", "alignments"} - set(example)
    if missing:
        raise ValueError(
            "An example must have source_tokens, target_tokens and alignments. Received: an "
            f"example without {', '.join(sorted(missing))}"
        )
    source, target = example["source_tokens"], example["target_tokens"]
    alignments = example["alignments"]
    layers = alignments if isinstance(alignments, dict) else {"": alignments}
    weights = [
        [name, checked_alignments(matrix, source, target).astype("float64").round(4).tolist()]
        for layer, matrices in layers.items()
        for name, matrix in _heads(layer, matrices)
    ]
    if not weights:
        raise ValueError("`alignments` must have a layer and a head. Received: none")
    return {
        "source": [label_of(token) for token in source],
        "target": [label_of(token) for token in target],
        "texts": [_text(source), _text(target)],
        "weights": weights,
    }


def _heads(layer, matrices):
    """Names and matrices of a layer: its mean first, where it has several heads."""
    matrices = np.asarray(matrices, dtype="float32")
    if matrices.ndim != 3:
        return [(layer, matrices)]
    start = f"{layer}, " if layer else ""
    heads = [(f"{start}head {number}", matrix) for number, matrix in enumerate(matrices)]
    mean = [(f"{start}mean of {len(heads)} heads", matrices.mean(axis=0))] if len(heads) > 1 else []
    return mean + heads


def _text(tokens):
    """The tokens as a line of text: SentencePiece pieces know where the spaces are."""
    is_pieces = any(token.startswith(WORD_START) for token in tokens)
    return ("" if is_pieces else " ").join(tokens).replace(WORD_START, " ").strip()
