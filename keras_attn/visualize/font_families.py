"""The library Matplotlib, and fonts for all scripts."""

from collections.abc import Iterable
from typing import Any


def import_matplotlib() -> Any:
    """Returns the package `matplotlib` with the modules that pictures need, except `pyplot`."""
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.figure
        import matplotlib.font_manager
        import matplotlib.patches
    except ImportError as error:
        raise ImportError("Pictures need Matplotlib: `pip install keras-attn[plot]`.") from error
    return matplotlib


def font_families(texts: Iterable[str]) -> list[str]:
    """Returns the default fonts, followed by installed fonts for characters that they lack.

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
