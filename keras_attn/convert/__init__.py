"""Checkpoint conversion from other libraries."""

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._from_opennmt_tf import from_opennmt_tf
from keras_attn.convert._from_transformers import Conversion, from_transformers
from keras_attn.convert._verify import Verification, verify

__all__ = [
    "Conversion",
    "ConversionError",
    "Verification",
    "from_opennmt_tf",
    "from_transformers",
    "verify",
]
