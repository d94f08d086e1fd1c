"""Runs files whose inputs have fixed sizes, such as LiteRT files with a batch size of 1."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_attn_runtime._array_types import Array, Arrays
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.engine_session import EngineSession


def fixed_batch_size(session: EngineSession) -> int | None:
    """Returns a file's batch size, or `None` if it is dynamic."""
    sizes = [value.shape[0] for value in session.inputs if value.shape]
    return next((size for size in sizes if isinstance(size, int)), None)


def fixed_length(session: EngineSession, name: str) -> int | None:
    """Returns the fixed size of an input's second axis, or `None` if it is dynamic."""
    shapes = [value.shape for value in session.inputs if value.name == name]
    if not shapes or shapes[0] is None or len(shapes[0]) < 2:
        return None
    size = shapes[0][1]
    return size if isinstance(size, int) else None


def run_rows(
    session: EngineSession, output_names: Sequence[str], feeds: Mapping[str, Array], call: Call
) -> Arrays:
    """Runs a batch. If the file's batch size is fixed, copies of the last row fill the batch.

    Args:
        session: `EngineSession`.
        output_names: list of strings.
        feeds: dict from input names to arrays. All except scalars have the batch axis first, with
            the same size.
        call: `Call`.

    Returns:
        Dict from output names to arrays, without results for the copies.

    Raises:
        ValueError: if there are more rows than the file's batch size.
        Exception: if the run fails. The exception classes differ between the engines.
    """
    rows = count_rows(feeds)
    outputs = session.run(output_names, fill_batch(session, feeds), call)
    pairs = zip(output_names, outputs, strict=True)
    return {name: first_rows(array, rows) for name, array in pairs}


def count_rows(feeds: Mapping[str, Array]) -> int:
    """Returns the number of rows in a batch."""
    return max(len(array) for array in feeds.values() if array.ndim)


def fill_batch(session: EngineSession, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    """Fills a batch with copies of its last row, if the file's batch size is fixed.

    Raises:
        ValueError: if there are more rows than the file's batch size.
    """
    size = fixed_batch_size(session)
    rows = count_rows(feeds)
    if size is not None and rows > size:
        raise ValueError(
            f"Expected at most {size} rows, the batch size of the file. Received: {rows} rows."
        )
    if size is None or rows == size:
        return feeds
    return {name: _padded(array, size) if array.ndim else array for name, array in feeds.items()}


def first_rows(array: Array, rows: int) -> Array:
    """Returns the first `rows` rows of a result, without those for copied rows."""
    # A copy, because a view would keep the other rows in memory.
    return array[:rows].copy() if len(array) > rows else array


def _padded(array: Array, size: int) -> Array:
    return np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])
