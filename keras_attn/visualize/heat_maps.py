"""Heat maps of attention."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize.alignment_tokens import checked_alignments, label_of


def plot_alignments(
    alignments: TensorLike,
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    ax: Any = None,
    title: str | None = None,
    cmap: Any = "gray",
) -> Any:
    """Draws where a translation looked in its source, as a heat map.

    Row t shows the attention weights over the source while target token t was written:

        pixel (t, s) = alpha_ts,   black for 0 and white for 1

    as in figure 3 of [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473): the source runs from
    left to right along the top, the output from top to bottom.

    Args:
        alignments: Array-like `(target_length, source_length)` of numbers from 0 to 1; padding is
            cut off before. A tensor of any backend that NumPy can read.
        source_tokens: List of `source_length` strings: words, characters or SentencePiece pieces.
        target_tokens: List of `target_length` strings, with the end token if `alignments` has it.
        ax: The `matplotlib.axes.Axes` to draw on. Default `None`: those of a new figure, as large
            as the tokens need.
        title: String. Drawn above the picture. Default `None`: no title.
        cmap: A Matplotlib colour map, or its name. Default `"gray"`, as in the paper.

    Returns:
        The `matplotlib.axes.Axes`; `ax.figure.savefig("attention.png")` writes it to a file.

    Raises:
        ValueError: if `alignments` is not a matrix, is empty, does not fit the tokens or has
            numbers outside 0 to 1.
        ImportError: if Matplotlib is not installed.

    Tokens are shown as people read them: the mark of a word start is left out, a token that is only
    a space is drawn as one that can be seen, and so are line breaks and tabs. Scripts that
    Matplotlib's default font lacks are drawn with an installed font that has them.

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
        # In inches: a cell for each token, and room for the labels.
        size = [min(1.2 + 0.32 * len(labels), 30.0) for labels in (source_labels, target_labels)]
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.imshow(alignments, cmap=cmap, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="equal")

    # parse_math=False: a "$" in a text is a dollar, not the start of a formula.
    text = {"parse_math": False, "family": _font_families(source_labels + target_labels)}
    ax.set_xticks(range(len(source_labels)), source_labels, **text)
    ax.set_yticks(range(len(target_labels)), target_labels, **text)
    ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    for label in ax.get_xticklabels():
        # Wider than a cell: written upwards.
        label.set_rotation(90 if len(label.get_text()) > 2 else 0)
    if title is not None:
        ax.set_title(title, parse_math=False, family=_font_families([title]))
    return ax


def plot_attention_grid(
    scores: Mapping[str, TensorLike],
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    title: str | None = None,
    cmap: Any = "gray",
) -> Any:
    """Draws the attention of several heads and layers, a row of heat maps for each layer.

    Args:
        scores: Dict from the name of a layer to array-like `(heads, target_length,
            source_length)`, or without the first axis for attention that has no heads, numbers from
            0 to 1; padding is cut off before. What `keras_attn.record_attention_scores` collects,
            one sentence of it.
        source_tokens, target_tokens, cmap: As in `plot_alignments`.
        title: String. Drawn above the picture. Default `None`: no title.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("heads.png")` writes it to a file.

    Raises:
        ValueError: if `scores` is empty, or one of the heat maps cannot be drawn.
        ImportError: if Matplotlib is not installed.

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
            "`scores` must have `(heads, target_length, source_length)` weights for at least one "
            "layer; choose one sentence of the batch. Received: "
            f"{ {name: heads.shape for name, heads in scores.items()} }"
        )
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need Matplotlib: `pip install keras-attn[plot]`.") from error

    rows, columns = len(scores), max(len(heads) for heads in scores.values())
    # In inches: cells a third as large as those of a single picture, labels on the outside only.
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
        figure.suptitle(title, parse_math=False, family=_font_families([title]))
    return figure


def _font_families(texts):
    """The default fonts, then for each character they lack an installed font that has it.

    Matplotlib looks for each character in the fonts in this order. Where no installed font has it,
    Matplotlib draws a box and warns.
    """
    import matplotlib
    from matplotlib import font_manager

    families = list(matplotlib.rcParams["font.family"])
    default_path = font_manager.findfont(font_manager.FontProperties(family=families))
    fonts = [font_manager.get_font(default_path)]
    for character in sorted(set("".join(texts))):
        if any(font.get_char_index(ord(character)) for font in fonts):
            continue
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: entry.name):
            font = font_manager.get_font(entry.fname)
            if font.get_char_index(ord(character)):
                families.append(entry.name)
                fonts.append(font)
                break
    return families
