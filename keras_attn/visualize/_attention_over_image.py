"""Plots attention over an image, word by word."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize._alignment_tokens import (
    checked_alignments,
    short_label_of,
    weights_array,
    word_ranges,
)
from keras_attn.visualize._image_pixels import image_pixels
from keras_attn.visualize._new_figure import (
    fitting_size,
    import_matplotlib,
    new_figure,
    set_title,
    text_style,
)

MOST_COLUMNS = 6
IMAGE_WIDTH = 1.6  # inches
FONT_SIZE, SMALLEST_FONT_SIZE = 9.0, 6.0  # points
ORANGE = (1.0, 0.6, 0.0)
OPACITY = 0.7
"""Opacity of the orange layer at a word's largest weight."""


def plot_attention_over_image(
    image: TensorLike,
    target_tokens: Sequence[Any],
    alignments: TensorLike,
    grid: tuple[int, int] | None = None,
    title: str | None = None,
    pixel_range: tuple[float, float] | None = None,
) -> Any:
    """Plots the part of an image to which each caption word attends.

    As in figure 3 of [Xu et al., 2015](https://arxiv.org/abs/1502.03044), the figure contains the
    image, followed by one picture per word. The picture for word t shows the image under an orange
    layer with the opacity

        0.7 a_t(y, x) / max_y,x a_t(y, x)

    where a_t are the weights for word t, interpolated from the grid of encoder positions to the
    image pixels (y, x). Each word has its own scale. A frame marks the position with the largest
    weight if this weight is at least twice the mean.

    SentencePiece pieces are joined to words, whose weights are the mean over their pieces. A
    special token such as `</s>` has its own picture.

    Args:
        image: Array-like with shape `(height, width)` or `(height, width, channels)` with 1 (gray),
            2 (gray and opacity), 3 (RGB) or 4 (RGBA) channels, or a Pillow image. Transparent
            pixels are shown over white.
        target_tokens: List of `target_length` strings: words or SentencePiece pieces.
        alignments: Array-like with shape `(target_length, rows * columns)` and numbers in [0, 1]:
            the weights over encoder positions, row by row, without the class token's weight.
        grid: Tuple of ints, rows and columns of encoder positions. Defaults to `None`: a square
            grid.
        title: String, title above the picture. Defaults to `None`.
        pixel_range: Tuple of two floats, the values of black and white. Pass `(-1, 1)` for an image
            scaled to [-1, 1]. Defaults to `None`: `(0, 255)` for integers and for floats with a
            value of at least 16, `(0, 1)` for floats up to 1 and for booleans. Images that fit
            neither range raise an error.

    Returns:
        The `matplotlib.figure.Figure`. Save the picture with `figure.savefig("attention.png")`.

    Raises:
        ValueError: If `image` is not an image, its pixels are outside `pixel_range` or fit neither
            default range, `alignments` do not match the tokens or contain masked cells or numbers
            outside [0, 1], or the number of positions does not match `grid`.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> import numpy as np
    >>> from keras_attn.visualize import plot_attention_over_image
    >>> image = np.zeros((20, 30, 3), "uint8")
    >>> weights = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]]
    >>> figure = plot_attention_over_image(image, ["a", "star"], weights)
    >>> [ax.get_title() for ax in figure.axes]
    ['', 'a', 'star']
    """
    pixels = image_pixels(image, pixel_range)
    weights = weights_array("alignments", alignments)
    num_positions = weights.shape[-1] if weights.ndim else 0
    weights = checked_alignments(weights, range(num_positions), target_tokens)
    words, weights = _join_pieces(target_tokens, weights)
    weights = weights.reshape(-1, *_grid_of(grid, num_positions))  # (words, rows, columns)
    columns = min(len(words) + 1, MOST_COLUMNS)
    rows = -(-(len(words) + 1) // columns)
    height, width = pixels.shape[:2]
    # There is space for the words above the images.
    column_width = IMAGE_WIDTH + 0.1
    figure = new_figure(column_width * columns, (IMAGE_WIDTH * height / width + 0.35) * rows)
    flat = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in flat:
        ax.set_axis_off()
    for ax in flat[len(words) + 1 :]:
        ax.remove()
    extent = (0, width, height, 0)
    flat[0].imshow(pixels, extent=extent)
    for ax, word, word_weights in zip(flat[1:], words, weights, strict=False):
        ax.imshow(pixels, extent=extent)
        layer = np.zeros((height, width, 4))
        layer[..., :3] = ORANGE
        largest = word_weights.max()
        layer[..., 3] = OPACITY * _resize(word_weights, height, width) / max(largest, 1e-9)
        ax.imshow(layer, extent=extent)
        if largest >= 2 * word_weights.mean():
            ax.add_patch(_frame(word_weights, height, width))
        word, size = fitting_size(word, 0.9 * IMAGE_WIDTH, FONT_SIZE, SMALLEST_FONT_SIZE)
        ax.set_title(word, pad=3, **text_style([word], fontsize=size))
    set_title(figure, title, fontsize=10)
    return figure


def _join_pieces(tokens, weights):
    """Joins SentencePiece pieces to words; returns the words and their mean weights."""
    ranges = word_ranges(tokens)
    words = [short_label_of("".join(tokens[word])) for word in ranges]
    return words, np.stack([weights[word].mean(axis=0) for word in ranges])


def _checked_grid(grid):
    is_pair = isinstance(grid, list | tuple) and len(grid) == 2
    if not is_pair or any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in grid):
        raise ValueError(
            f"Expected grid to be two ints, rows and columns. Received: grid={grid!r}. Pass the "
            "numbers of rows and columns of the encoder positions."
        )
    return grid


def _grid_of(grid, num_positions):
    """Returns the rows and columns of encoder positions."""
    side = round(num_positions**0.5)
    rows, columns = (side, side) if grid is None else _checked_grid(grid)
    if rows * columns != num_positions:
        raise ValueError(
            "Expected alignments with one weight for each position of the grid. Received: "
            f"{num_positions} positions, grid={grid}. Pass the rows and columns of the encoder as "
            "grid, and remove the weight of a class token."
        )
    return rows, columns


def _resize(weights, height, width):
    """Interpolates weights linearly from cell centers to pixel centers."""
    for axis, size in enumerate((height, width)):
        count = weights.shape[axis]
        centers = (np.arange(size) + 0.5) * count / size - 0.5
        weights = np.apply_along_axis(
            lambda line, centers=centers: np.interp(centers, np.arange(len(line)), line),
            axis,
            weights,
        )
    return weights


def _frame(weights, height, width):
    """Returns a frame around the cell with the largest weight."""
    row, column = np.unravel_index(weights.argmax(), weights.shape)
    cell_height, cell_width = height / weights.shape[0], width / weights.shape[1]
    return import_matplotlib().patches.Rectangle(
        (column * cell_width, row * cell_height),
        cell_width,
        cell_height,
        fill=False,
        edgecolor=ORANGE,
        linewidth=1.0,
    )
