"""Heat map sizes and positions in a figure."""

from collections.abc import Sequence
from typing import Any

from keras_attn.visualize._alignment_tokens import visible_text
from keras_attn.visualize._new_figure import new_figure, text_size, text_style, wrapped_text

# Sizes in inches.
LARGEST = 30.0
MARGIN = 0.12
TICK_SPACE = 0.06
GAP = 0.2
COLOR_BAR, COLOR_BAR_SPACE = 0.1, 0.45  # its height, and with the labels below it
POINTS_PER_INCH = 72


def is_turned(label: str) -> bool:
    """Returns whether a label above a column is wider than a cell."""
    return len(label) > 2


class MapGrid:
    """Figure with a grid of heat maps for the same tokens, sized to fit the labels.

    Source labels are above the first row, and target labels are to the left of the first column.
    Matplotlib's layouts reduce the maps to make space for long labels. Here the figure grows
    instead, up to 30 inches. In larger figures, cells and labels are smaller.

    Args:
        source_labels: List of strings, one for each map column.
        target_labels: List of strings, one for each map row.
        cell: Float, cell width and height in inches.
        font_size: Float, label size in points.
        title: String, title above the figure, or `None`.
        rows: Int, number of rows. Defaults to `1`.
        columns: Int, number of columns. Defaults to `1`.
        has_color_bar: Bool, whether there is space for a color bar below one map. Defaults to
            `False`.

    Attributes:
        figure: `matplotlib.figure.Figure` without axes.
        font_size: Float, label size at which labels of adjacent cells do not overlap.
        row_height: Float, distance between two rows in inches.
        title: String, the title, broken into lines, or `None`.
    """

    def __init__(
        self,
        source_labels: Sequence[str],
        target_labels: Sequence[str],
        *,
        cell: float,
        font_size: float,
        title: str | None,
        rows: int = 1,
        columns: int = 1,
        has_color_bar: bool = False,
    ) -> None:
        style = text_style([*source_labels, *target_labels], fontsize=font_size)
        above = max(
            text_size(filter(is_turned, source_labels), **style)[0],
            text_size(["X"], **style)[1],
        )
        names = 0.0 if rows == columns == 1 else GAP  # space for layer and head names
        self._left = MARGIN + names + text_size(target_labels, **style)[0] + TICK_SPACE
        self._top = MARGIN + above + TICK_SPACE
        self._gap = GAP + names
        across, down = len(source_labels), len(target_labels)
        # All sizes except the cells.
        width = self._left + (columns - 1) * GAP + MARGIN
        below = MARGIN + COLOR_BAR_SPACE * has_color_bar
        height = self._top + (rows - 1) * self._gap + names + below
        self._cell = min(
            cell, (LARGEST - width) / (columns * across), (LARGEST - height) / (rows * down)
        )
        self._map = across * self._cell, down * self._cell
        width += columns * self._map[0]
        self.title = None
        if title is not None:
            title = visible_text(title)
            style = text_style([title], fontsize=12)
            width = max(width, min(text_size([title], **style)[0] + 2 * MARGIN, LARGEST))
            # A title is centered above one map, or above the figure.
            center = self._left + self._map[0] / 2 if rows == columns == 1 else width / 2
            available = 2 * (min(center, width - center) - MARGIN)
            self.title = wrapped_text(title, available, **style)
            title_height = text_size([self.title], **style)[1] + GAP
            self._top += title_height
            height += title_height
        self.font_size = min(font_size, 0.85 * POINTS_PER_INCH * self._cell)
        self.row_height = self._map[1] + self._gap
        self.figure = new_figure(width, height + rows * self._map[1], layout=None)

    def add_axes(self, row: int, column: int) -> Any:
        """Returns new axes, `matplotlib.axes.Axes`, at a place in the grid."""
        total_width, total_height = self.figure.get_size_inches()
        width, height = self._map
        left = self._left + column * (width + GAP)
        bottom = total_height - self._top - height - row * self.row_height
        return self.figure.add_axes(
            (
                left / total_width,
                bottom / total_height,
                width / total_width,
                height / total_height,
            )
        )

    def add_color_bar(self, ax: Any) -> Any:
        """Returns new axes for a color bar below the map on `ax`."""
        height = self._map[1]
        return ax.inset_axes((0, -(TICK_SPACE + COLOR_BAR) / height, 1, COLOR_BAR / height))
