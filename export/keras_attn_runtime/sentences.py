"""The sentences and prefixes that a caller passes."""

from collections.abc import Mapping, Set

import numpy as np

from keras_attn_runtime.reading import read


def require_sentences(sentences, name):
    """Returns sentences unchanged; raises `ValueError` for what is not one item a sentence."""
    # A lone string is an iterable of characters: never what was meant.
    # A dict or a table gives its keys, a set has no order.
    is_list = hasattr(sentences, "__iter__") and not hasattr(sentences, "columns")
    if not is_list or isinstance(sentences, (str, bytes, Mapping, Set)):
        raise ValueError(
            f"Expected {name} to be a list with one item for each sentence. "
            f"Received: type={type(sentences).__name__}."
        )
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        raise ValueError(f"Expected {name} of rank 1 or 2. Received: shape=().")
    return sentences


def read_prefix(target_prefix, call):
    """Like `read`, for a prefix that all sentences share too, or for what is refused later."""
    if isinstance(target_prefix, (str, bytes)) or not hasattr(target_prefix, "__iter__"):
        return target_prefix
    if isinstance(target_prefix, (list, tuple, np.ndarray)):
        return target_prefix  # may be one prefix, and cannot block
    return read(target_prefix, call)
