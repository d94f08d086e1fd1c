"""Checkpoint conversion from other libraries."""

from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.from_opennmt_tf import from_opennmt_tf
from keras_attn.convert.from_transformers import Conversion, from_transformers
from keras_attn.convert.verify import Verification, verify

__all__ = [
    "Conversion",
    "ConversionError",
    "Verification",
    "from_opennmt_tf",
    "from_transformers",
    "verify",
]
