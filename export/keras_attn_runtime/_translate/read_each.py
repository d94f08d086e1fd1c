"""Reads an argument that has one item for each sentence."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from keras_attn_runtime._errors import InputError
from keras_attn_runtime._inputs.source import Source

T = TypeVar("T")


def read_each(
    sources: Iterable[Source], items: Iterable[object], read: Callable[[object], T], name: str
) -> Iterator[tuple[Source, T]]:
    """Yields each source with the value that `read` returns for its item.

    Raises:
        ValueError: if the numbers of sources and items differ.
        InputError: if `read` raises a `ValueError`.
    """
    nothing = object()
    pairs = itertools.zip_longest(sources, items, fillvalue=nothing)
    for index, (source, item) in enumerate(pairs):
        if not isinstance(source, Source) or item is nothing:
            more = "only" if isinstance(source, Source) else "more than"
            raise ValueError(f"Expected one {name} for each sentence. Received: {more} {index}.")
        try:
            value = read(item)
        except ValueError as error:
            raise InputError(index, str(error)) from error
        yield source, value
