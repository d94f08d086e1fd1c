"""Heat maps of attention weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize.alignment_tokens import checked_alignments, label_of
from keras_attn.visualize.font_families import font_families


def plot_alignments(
    alignments: TensorLike,
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    ax: Any = None,
    title: str | None = None,
    cmap: Any = "gray",
) -> Any:
    """Plots the attention weights of one output sequence as a heat map.

    Row t shows the weights over the source at the step that generated target token t:

        pixel (t, s) = alpha_ts        (black: 0, white: 1)

    As in figure 3 of [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473), the source tokens
    are above the columns, and the target tokens are to the left of the rows.

    Labels show spaces, line breaks and tabs as visible characters, and do not contain the word
    start symbol of SentencePiece. If the default font of Matplotlib does not contain a character,
    an installed font that contains it is used.

    Args:
        alignments: Array-like of shape `(target_length, source_length)` with numbers in [0, 1],
            without padding. Tensors of any backend that NumPy can read are accepted.
        source_tokens: List of `source_length` strings: words, characters or SentencePiece pieces.
        target_tokens: List of `target_length` strings, including the end token if `alignments`
            includes it.
        ax: `matplotlib.axes.Axes` to draw on. Defaults to `None`: a new figure whose size depends
            on the number of tokens.
        title: String, title above the picture. Defaults to `None`.
        cmap: Matplotlib color map, or its name. Defaults to `"gray"`, as in the paper.

    Returns:
        The `matplotlib.axes.Axes`. Save the picture with `ax.figure.savefig("attention.png")`.

    Raises:
        ValueError: If `alignments` is not a matrix, is empty, does not match the tokens, or has
            numbers outside of [0, 1].
        ImportError: If Matplotlib is not installed.

    Example:

    >>> ax = plot_alignments([[0.9, 0.1], [0.2, 0.8]], ["▁zwei", "▁Hunde"], ["▁two", "▁dogs"])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['zwei', 'Hunde']
    """
    alignments = checked_alignments(alignments, source_tokens, target_tokens)
    source_labels = [label_of(token) for token in source_tokens]
    target_labels = [label_of(token) for token in target_tokens]
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need Matplotlib: `pip install keras-attn[plot]`.") from error

    if ax is None:
        # Size in inches: one cell per token, and space for the labels.
        size = [min(1.2 + 0.32 * len(labels), 30.0) for labels in (source_labels, target_labels)]
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.imshow(alignments, cmap=cmap, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="equal")

    # parse_math=False, so that "$" does not begin a formula.
    text = {"parse_math": False, "family": font_families(source_labels + target_labels)}
    ax.set_xticks(range(len(source_labels)), source_labels, **text)
    ax.set_yticks(range(len(target_labels)), target_labels, **text)
    ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    for label in ax.get_xticklabels():
        # Rotate labels that are wider than a cell.
        label.set_rotation(90 if len(label.get_text()) > 2 else 0)
    if title is not None:
        ax.set_title(title, parse_math=False, family=font_families([title]))
    return ax


def plot_attention_grid(
    scores: Mapping[str, TensorLike],
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    title: str | None = None,
    cmap: Any = "gray",
) -> Any:
    """Plots the attention weights of several heads and layers, with one row per layer.

    Args:
        scores: Dict from layer names to array-likes of shape `(heads, target_length,
            source_length)`, or `(target_length, source_length)` for attention with one head, with
            numbers in [0, 1], without padding. For example, use one batch entry of the result of
            `keras_attn.record_attention_scores`.
        source_tokens: List of `source_length` strings, see `plot_alignments`.
        target_tokens: List of `target_length` strings, see `plot_alignments`.
        title: String, title above the picture. Defaults to `None`.
        cmap: Matplotlib color map, or its name. Defaults to `"gray"`.

    Returns:
        The `matplotlib.figure.Figure`. Save the picture with `figure.savefig("heads.png")`.

    Raises:
        ValueError: If `scores` is empty, or an array does not match the tokens.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> weights = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [1.0, 0.0]]]
    >>> figure = plot_attention_grid({"block_0": weights}, ["zwei", "Hunde"], ["two", "dogs"])
    >>> len(figure.axes)
    2
    """
    scores = {name: np.asarray(heads, dtype="float32") for name, heads in scores.items()}
    scores = {name: heads[None] if heads.ndim == 2 else heads for name, heads in scores.items()}
    if not scores or any(heads.ndim != 3 for heads in scores.values()):
        raise ValueError(
            "Expected scores with weights of shape (heads, target_length, source_length) for at "
            "least one layer. Received: scores with shapes "
            f"{ {name: heads.shape for name, heads in scores.items()} }. Select one batch entry."
        )
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need Matplotlib: `pip install keras-attn[plot]`.") from error

    rows, columns = len(scores), max(len(heads) for heads in scores.values())
    # Size in inches: cells have about a third of the size in `plot_alignments`, and only the outer
    # plots have labels.
    width = columns * (0.4 + 0.12 * len(source_tokens)) + 1.2
    height = rows * (0.4 + 0.12 * len(target_tokens)) + 1.2
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(min(width, 40.0), min(height, 40.0)),
        squeeze=False,
        layout="constrained",
    )
    for row, (name, heads) in enumerate(scores.items()):
        for column, ax in enumerate(axes[row]):
            if column >= len(heads):
                ax.remove()
                continue
            plot_alignments(heads[column], source_tokens, target_tokens, ax=ax, cmap=cmap)
            ax.tick_params(labelsize=5, labeltop=row == 0, labelleft=column == 0)
            ax.set_xlabel(f"head {column}", fontsize=6)
            if column == 0:
                ax.set_ylabel(name, fontsize=6, parse_math=False)
    if title is not None:
        figure.suptitle(title, parse_math=False, family=font_families([title]))
    return figure
