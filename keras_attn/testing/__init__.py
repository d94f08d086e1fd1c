"""Checks, for any test runner, that layers, decoders and searches satisfy their contracts.

Each check takes a function that creates an object, because most checks need several objects. If a
requirement is not satisfied, a check raises an `AssertionError` that names the requirement.
"""

from keras_attn.testing._decoder_checks import check_decoder
from keras_attn.testing._layer_checks import check_layer
from keras_attn.testing._search_checks import check_search

__all__ = ["check_decoder", "check_layer", "check_search"]
