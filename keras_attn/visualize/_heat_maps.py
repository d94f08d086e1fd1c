"""Attention heat maps."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize._alignment_tokens import (
    checked_alignments,
    short_label_of,
    visible_text,
    weights_array,
)
from keras_attn.visualize._map_grid import MapGrid, is_turned
from keras_attn.visualize._new_figure import fitting_size, set_title, text_style

# Cell sizes in inches and font sizes in points, for one map and for maps in a grid.
CELL, FONT_SIZE = 0.32, 10.0
SMALL_CELL, SMALL_FONT_SIZE = 0.12, 5.0


def plot_alignments(
    alignments: TensorLike,
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    ax: Any = None,
    title: str | None = None,
    cmap: Any = "gray",
    scale: Literal["one", "max"] | None = None,
) -> Any:
    """Plots one output sequence's attention weights as a heat map.

    Row t shows the weights over the source at the step that generated target token t:

        pixel (t, s) = alpha_ts                  (scale="one": black is 0, white is 1)
        pixel (t, s) = alpha_ts / max alpha      (scale="max": white is the largest weight)

    With `scale="max"`, a color bar below the map shows the largest weight. It is the default for a
    single row, such as the weights of a classifier: the words of a long sentence share a sum of 1.

    As in figure 3 of [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473), the source tokens
    are above the columns, and the target tokens are to the left of the rows.

    Labels show spaces, line breaks and control characters as visible characters, without
    SentencePiece's word start symbol. Labels longer than 40 characters are shortened in the middle.
    If Matplotlib's default font lacks a character, an installed font that contains it is used.

    Args:
        alignments: Array-like with shape `(target_length, source_length)`, or `(source_length,)`
            for one target token, and numbers in [0, 1], without padding. Tensors from any backend
            that NumPy can read are accepted.
        source_tokens: List of `source_length` strings: words, characters or SentencePiece pieces.
        target_tokens: List of `target_length` strings, including the end token if `alignments`
            includes it.
        ax: `matplotlib.axes.Axes` to draw on. Defaults to `None`: a new figure whose size depends
            on the tokens. `matplotlib.pyplot` does not keep it open, so it need not be closed.
        title: String, title above the picture. Defaults to `None`.
        cmap: Matplotlib color map, or its name. Defaults to `"gray"`, as in the paper.
        scale: String, `"one"` or `"max"`. Defaults to `None`: `"max"` for a single row, `"one"`
            otherwise.

    Returns:
        The `matplotlib.axes.Axes`. Save the picture with `ax.figure.savefig("attention.png")`.

    Raises:
        ValueError: If `alignments` is not a matrix, is empty, does not match the tokens, or
            contains masked cells or numbers outside [0, 1], or `scale` is unknown.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> from keras_attn.visualize import plot_alignments
    >>> ax = plot_alignments([[0.9, 0.1], [0.2, 0.8]], ["▁zwei", "▁Hunde"], ["▁two", "▁dogs"])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['zwei', 'Hunde']
    """
    alignments = checked_alignments(alignments, source_tokens, target_tokens)
    if scale not in (None, "one", "max"):
        raise ValueError(f"Expected scale to be 'one', 'max' or None. Received: scale={scale!r}.")
    is_relative = scale == "max" or (scale is None and len(alignments) == 1)
    largest = (float(alignments.max()) or 1.0) if is_relative else 1.0
    source_labels = [short_label_of(token) for token in source_tokens]
    target_labels = [short_label_of(token) for token in target_tokens]
    bar_axes = font_size = None
    if ax is None:
        grid = MapGrid(
            source_labels,
            target_labels,
            cell=CELL,
            font_size=FONT_SIZE,
            title=title,
            has_color_bar=is_relative,
        )
        ax, font_size, title = grid.add_axes(0, 0), grid.font_size, grid.title
        bar_axes = grid.add_color_bar(ax) if is_relative else None
    image = draw_heat_map(ax, alignments, source_labels, target_labels, cmap, font_size, largest)
    if is_relative:
        place = {"ax": ax} if bar_axes is None else {"cax": bar_axes}
        bar = ax.figure.colorbar(image, orientation="horizontal", ticks=[0, largest], **place)
        bar.set_ticklabels(["0", f"{largest:.2g}"])
    if title is not None:
        title = visible_text(title)
        ax.set_title(title, **text_style([title]))
    return ax


def draw_heat_map(
    ax: Any,
    alignments: np.ndarray,
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    cmap: Any,
    font_size: float | None = None,
    largest: float = 1.0,
) -> Any:
    """Draws weights on axes, with source labels above and target labels to the left.

    Args:
        ax: `matplotlib.axes.Axes`.
        alignments: Array with shape `(target_length, source_length)`.
        source_labels: List of strings.
        target_labels: List of strings.
        cmap: Matplotlib color map, or its name.
        font_size: Float, label size in points. Defaults to `None`: the default size.
        largest: Float, weight of the last color in the map. Defaults to `1.0`.

    Returns:
        The `matplotlib.image.AxesImage`.
    """
    image = ax.imshow(
        alignments, cmap=cmap, vmin=0.0, vmax=largest, interpolation="nearest", aspect="equal"
    )
    style = text_style([*source_labels, *target_labels])
    ax.set_xticks(range(len(source_labels)), source_labels, **style)
    ax.set_yticks(range(len(target_labels)), target_labels, **style)
    ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    if font_size is not None:
        ax.tick_params(labelsize=font_size)
    for label in ax.get_xticklabels():
        label.set_rotation(90 if is_turned(label.get_text()) else 0)
    return image


def plot_attention_grid(
    scores: Mapping[str, TensorLike],
    source_tokens: Sequence[Any],
    target_tokens: Sequence[Any],
    title: str | None = None,
    cmap: Any = "gray",
) -> Any:
    """Plots attention weights for several heads and layers, with one row per layer.

    Args:
        scores: Dict from layer names to array-likes with shape `(heads, target_length,
            source_length)`, or `(target_length, source_length)` for attention with one head, and
            numbers in [0, 1], without padding. For example, use one batch entry from
            `keras_attn.record_attention_scores`.
        source_tokens: List of `source_length` strings, see `plot_alignments`.
        target_tokens: List of `target_length` strings, see `plot_alignments`.
        title: String, title above the picture. Defaults to `None`.
        cmap: Matplotlib color map, or its name. Defaults to `"gray"`.

    Returns:
        The `matplotlib.figure.Figure`. Save the picture with `figure.savefig("heads.png")`.

    Raises:
        ValueError: If `scores` is empty, or an array contains masked cells or does not match the
            tokens.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> from keras_attn.visualize import plot_attention_grid
    >>> weights = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [1.0, 0.0]]]
    >>> figure = plot_attention_grid({"block_0": weights}, ["zwei", "Hunde"], ["two", "dogs"])
    >>> len(figure.axes)
    2
    """
    scores = {name: weights_array(f"scores[{name!r}]", heads) for name, heads in scores.items()}
    scores = {name: heads[None] if heads.ndim == 2 else heads for name, heads in scores.items()}
    if not scores or any(heads.ndim != 3 for heads in scores.values()):
        raise ValueError(
            "Expected scores with weights of shape (heads, target_length, source_length) for at "
            "least one layer. Received: scores with shapes "
            f"{ {name: heads.shape for name, heads in scores.items()} }. Select one batch entry."
        )
    source_labels = [short_label_of(token) for token in source_tokens]
    target_labels = [short_label_of(token) for token in target_tokens]
    matrices = {
        name: [checked_alignments(matrix, source_tokens, target_tokens) for matrix in heads]
        for name, heads in scores.items()
    }
    grid = MapGrid(
        source_labels,
        target_labels,
        cell=SMALL_CELL,
        font_size=SMALL_FONT_SIZE,
        title=title,
        rows=len(scores),
        columns=max(map(len, matrices.values())),
    )
    for row, (name, heads) in enumerate(matrices.items()):
        for column, matrix in enumerate(heads):
            ax = grid.add_axes(row, column)
            draw_heat_map(ax, matrix, source_labels, target_labels, cmap, grid.font_size)
            ax.tick_params(labeltop=row == 0, labelleft=column == 0)
            ax.set_xlabel(f"head {column}", fontsize=6)
            if column == 0:
                layer, size = fitting_size(short_label_of(name), grid.row_height, 6.0, 3.0)
                ax.set_ylabel(layer, **text_style([layer], fontsize=size))
    set_title(grid.figure, title)
    return grid.figure
