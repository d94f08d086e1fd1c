import html
import json
import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.visualize._alignment_tokens import (
    WORD_START,
    checked_alignments,
    label_of,
    visible_text,
    weights_array,
    word_ranges,
)

TEMPLATE = Path(__file__).with_name("alignments.html")


def write_alignment_html(
    path: str | PathLike[str], examples: Iterable[Mapping[str, Any]], title: str = "Attention"
) -> None:
    """Writes an interactive HTML page that shows each word's attention weights.

    The page is a single file without external resources. If you point at a word, it highlights the
    words to which the word attends. It also shows a heat map, and supports keyboard navigation,
    right-to-left scripts, and the selection of heads and layers.

    A classifier has one target token, the label. Then the words of the source are always colored,
    from no weight to the largest weight in the sentence.

    Args:
        path: File path. An existing file is replaced.
        examples: List of dicts, one per sentence, with the keys `"source_tokens"` and
            `"target_tokens"` (lists of strings, see `plot_alignments`) and `"alignments"`. The
            alignments are an array-like with shape `(target_length, source_length)` or `(heads,
            target_length, source_length)`, or `(source_length,)` for one target token, and numbers
            in [0, 1], without padding, or a dict from layer names to such arrays.
        title: String, page heading. Defaults to `"Attention"`.

    Raises:
        ValueError: If there is no example, a key is missing, weights are a NumPy masked array, or
            the shape of the weights does not match the tokens.

    Example:

    >>> import tempfile
    >>> from keras_attn.visualize import write_alignment_html
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
        raise ValueError("Expected at least one example. Received: examples=[].")
    parts = {
        "title": html.escape(visible_text(title)),
        # Escape "<", because "</script>" would end the script element.
        "examples": json.dumps(examples, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    page = re.sub(r"\{\{(title|examples)\}\}", lambda match: parts[match[1]], template)
    with atomic_replace(path, is_file=True) as partial:
        partial.write_text(page, encoding="utf-8")


def _page_data(example):
    """Returns an example's labels, texts and weights for the page."""
    missing = {"source_tokens", "target_tokens", "alignments"} - set(example)
    if missing:
        raise ValueError(
            "Expected an example with source_tokens, target_tokens and alignments. Received: an "
            f"example without {', '.join(sorted(missing))}."
        )
    source, target = example["source_tokens"], example["target_tokens"]
    alignments = example["alignments"]
    layers = alignments if isinstance(alignments, dict) else {"": alignments}
    weights = [
        [
            visible_text(name),
            _rounded(checked_alignments(matrix, source, target)),
        ]
        for layer, matrices in layers.items()
        for name, matrix in _heads(layer, matrices)
    ]
    if not weights:
        raise ValueError(
            "Expected alignments of at least one layer and head. Received: alignments={}."
        )
    return {
        "source": [label_of(token) for token in source],
        "target": [label_of(token) for token in target],
        "texts": [_text(source), _text(target)],
        "weights": weights,
    }


def _rounded(weights):
    return weights.astype("float64").round(4).tolist()


def _heads(layer, matrices):
    """Returns a layer's names and matrices: the mean over the heads, followed by each head."""
    matrices = weights_array("alignments", matrices)
    if matrices.ndim != 3:
        return [(layer, matrices)]
    start = f"{layer}, " if layer else ""
    heads = [(f"{start}head {number}", matrix) for number, matrix in enumerate(matrices)]
    mean = [(f"{start}mean of {len(heads)} heads", matrices.mean(axis=0))] if len(heads) > 1 else []
    return mean + heads


def _text(tokens):
    """Joins tokens to a line of text."""
    ranges = word_ranges(tokens)
    words = ("".join(tokens[word]).replace(WORD_START, " ").strip() for word in ranges)
    return visible_text(" ".join(words)).strip()
