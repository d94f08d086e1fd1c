"""Type checks for sentences and prefixes."""

from collections.abc import Iterable, Mapping, Set
from typing import TypeGuard, TypeVar

from keras_attn_runtime._array_types import is_in_memory, is_scalar_array
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.reading import read

T = TypeVar("T")


def require_sentences(sentences: Iterable[T], name: str) -> Iterable[T]:
    """Returns sentences unchanged; raises `ValueError` if their type is wrong."""
    if not _is_list(sentences):
        raise ValueError(
            f"Expected {name} to be a list with one item for each sentence. "
            f"Received: type={type(sentences).__name__}."
        )
    if is_scalar_array(sentences):
        raise ValueError(f"Expected {name} of rank 1 or 2. Received: shape=().")
    return sentences


def read_prefix(target_prefix: object, call: Call) -> object:
    """Applies `read` to iterable prefixes.

    A single prefix for all sentences, or an invalid value, is returned unchanged.
    """
    if isinstance(target_prefix, (str, bytes)) or not isinstance(target_prefix, Iterable):
        return target_prefix
    if is_in_memory(target_prefix):
        return target_prefix  # reading a list or an array cannot block
    return read(target_prefix, call)


def has_items(values: object) -> TypeGuard[Iterable[object]]:
    """Returns whether a value is iterable and not bytes, a dict, a set or a rank-0 array."""
    if isinstance(values, (bytes, Mapping, Set)) or is_scalar_array(values):
        return False
    return isinstance(values, Iterable)


def _is_list(sentences: object) -> bool:
    # A string iterates over characters, a dict or a table over keys. A set is not ordered.
    if hasattr(sentences, "columns") or isinstance(sentences, (str, bytes, Mapping, Set)):
        return False
    return isinstance(sentences, Iterable)
