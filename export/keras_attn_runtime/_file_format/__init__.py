"""Reads metadata in exported files, which docs/file-format.md defines.

The runtime uses settings in format 2. `metadata_entries` converts format 1 to format 2, so that
other modules need not distinguish them.
"""

from keras_attn_runtime._file_format.functional_settings import ClassifierSettings
from keras_attn_runtime._file_format.inputs import Input
from keras_attn_runtime._file_format.metadata_entries import FORMATS, PREFIX, tokenizer_of
from keras_attn_runtime._file_format.series_settings import SeriesSettings
from keras_attn_runtime._file_format.settings import Settings
from keras_attn_runtime._file_format.vocabulary_side import Side

__all__ = [
    "FORMATS",
    "PREFIX",
    "ClassifierSettings",
    "Input",
    "SeriesSettings",
    "Settings",
    "Side",
    "tokenizer_of",
]
