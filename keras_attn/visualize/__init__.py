"""Visualization: heat maps of attention, interactive HTML pages, and plots of forecasts."""

from keras_attn.visualize.heat_maps import plot_alignments, plot_attention_grid
from keras_attn.visualize.plot_forecast import plot_forecast
from keras_attn.visualize.write_alignment_html import write_alignment_html

__all__ = ["plot_alignments", "plot_attention_grid", "plot_forecast", "write_alignment_html"]
