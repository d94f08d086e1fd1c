"""Names that many tests use: the helpers of `keras_attn.testing`, under short names."""

from keras.ops import convert_to_tensor as tensor

from keras_attn._serialization.plain_lists import plain_lists as plain
from keras_attn.testing._arrays import assert_close, assert_identical, randomize
from keras_attn.testing._arrays import to_numpy as numpy
from keras_attn.testing._search_checks import assert_found, check_padding_and_batch

__all__ = [
    "assert_close",
    "assert_found",
    "assert_identical",
    "check_padding_and_batch",
    "numpy",
    "plain",
    "randomize",
    "tensor",
]
