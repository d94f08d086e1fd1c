"""Visualization of attention: heat maps, attention over images, and interactive HTML pages."""

from keras_attn.visualize.attention_over_image import plot_attention_over_image
from keras_attn.visualize.heat_maps import plot_alignments, plot_attention_grid
from keras_attn.visualize.write_alignment_html import write_alignment_html

__all__ = [
    "plot_alignments",
    "plot_attention_grid",
    "plot_attention_over_image",
    "write_alignment_html",
]
