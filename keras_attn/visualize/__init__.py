"""Visualization of attention: heat maps and interactive HTML pages."""

from keras_attn.visualize.heat_maps import plot_alignments, plot_attention_grid
from keras_attn.visualize.write_alignment_html import write_alignment_html

__all__ = ["plot_alignments", "plot_attention_grid", "write_alignment_html"]
