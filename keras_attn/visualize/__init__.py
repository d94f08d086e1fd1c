"""Visualization: attention heat maps, attention over images, HTML pages, forecast plots."""

from keras_attn.visualize._attention_over_image import plot_attention_over_image
from keras_attn.visualize._heat_maps import plot_alignments, plot_attention_grid
from keras_attn.visualize._plot_forecast import plot_forecast
from keras_attn.visualize._write_alignment_html import write_alignment_html

__all__ = [
    "plot_alignments",
    "plot_attention_grid",
    "plot_attention_over_image",
    "plot_forecast",
    "write_alignment_html",
]
