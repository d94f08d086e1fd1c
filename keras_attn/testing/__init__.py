"""Checks of layers and decoders against their contracts, for any test runner.

Each check takes a function that creates the object, because most checks need more than one. A
check that fails raises an `AssertionError` whose message names the requirement that is not met.
"""

from keras_attn.testing.decoder_checks import check_decoder
from keras_attn.testing.layer_checks import check_layer
from keras_attn.testing.search_checks import check_search

__all__ = ["check_decoder", "check_layer", "check_search"]
