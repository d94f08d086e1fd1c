"""Figures that Matplotlib does not keep open, fonts for all scripts, and text sizes."""

import textwrap
from collections.abc import Iterable
from typing import Any

from keras_attn.visualize._alignment_tokens import shortened, visible_text


def import_matplotlib() -> Any:
    """Returns `matplotlib` with the modules needed for figures, except `pyplot`."""
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.dates
        import matplotlib.figure
        import matplotlib.font_manager
        import matplotlib.patches
    except ImportError as error:
        raise ImportError(
            "Pictures need Matplotlib: `pip install '.[plot]'` in a checkout."
        ) from error
    return matplotlib


def font_families(texts: Iterable[str]) -> list[str]:
    """Returns the default fonts, followed by installed fonts for missing characters.

    Matplotlib searches the fonts in this order. If no installed font contains a character,
    Matplotlib draws a box and warns.
    """
    matplotlib = import_matplotlib()
    font_manager = matplotlib.font_manager

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


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Any:
    """Returns a `matplotlib.figure.Figure` with a size in inches.

    `matplotlib.pyplot` does not know the figure, so it needs no `close`: it is freed like any other
    object.
    """
    return import_matplotlib().figure.Figure(figsize=(width, height), layout=layout)


def text_style(texts: Iterable[str], **options: Any) -> dict[str, Any]:
    """Returns Matplotlib arguments for texts in any script, which are never formulas."""
    return {"parse_math": False, "family": font_families(texts), **options}


def set_title(figure: Any, title: str | None, fontsize: float = 12) -> None:
    """Writes a title above a figure, on several lines if it is long."""
    if title is not None:
        title = visible_text(title)
        style = text_style([title], fontsize=fontsize)
        width = figure.get_size_inches()[0] - 0.2
        figure.suptitle(wrapped_text(title, width, **style), **style)


def wrapped_text(text: str, width: float, **style: Any) -> str:
    """Breaks a text into lines of at most about `width` inches."""
    actual, _ = text_size([text], **style)
    if actual <= width:
        return text
    longest = max(map(len, text.split("\n")))
    most = max(int(longest * width / actual), 1)
    return "\n".join(textwrap.fill(line, most) for line in text.split("\n"))


def fitting_size(text: str, width: float, fontsize: float, least: float) -> tuple[str, float]:
    """Returns a text and a font size with which it is at most about `width` inches wide.

    The size is reduced from `fontsize` to `least`. A text that is still too wide is shortened.
    """
    actual, _ = text_size([text], **text_style([text], fontsize=fontsize))
    if actual <= width:
        return text, fontsize
    if fontsize * width / actual >= least:
        return text, fontsize * width / actual
    return shortened(text, int(len(text) * width / actual * fontsize / least)), least


def text_size(texts: Iterable[str], **style: Any) -> tuple[float, float]:
    """Returns the largest width and height of texts, in inches."""
    figure = new_figure(1.0, 1.0)
    canvas = import_matplotlib().backends.backend_agg.FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    boxes = [figure.text(0, 0, text, **style).get_window_extent(renderer) for text in texts]
    widths, heights = ([getattr(box, name) for box in boxes] for name in ("width", "height"))
    return max(widths, default=0.0) / figure.dpi, max(heights, default=0.0) / figure.dpi
