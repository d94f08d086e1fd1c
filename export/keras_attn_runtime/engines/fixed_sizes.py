"""Runs files whose inputs have fixed sizes, such as LiteRT files with a batch size of 1."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_attn_runtime.array_types import Array, Arrays
from keras_attn_runtime.cancellation import Call
from keras_attn_runtime.engines.engine_session import EngineSession


def fixed_batch_size(session: EngineSession) -> int | None:
    """Returns the batch size of a file, or `None` if it runs batches of any size."""
    sizes = [each.shape[0] for each in session.inputs if each.shape]
    return next((size for size in sizes if isinstance(size, int)), None)


def fixed_length(session: EngineSession, name: str) -> int | None:
    """Returns the fixed size of the second axis of an input, or `None` if it is dynamic."""
    shapes = [each.shape for each in session.inputs if each.name == name]
    if not shapes or shapes[0] is None or len(shapes[0]) < 2:
        return None
    size = shapes[0][1]
    return size if isinstance(size, int) else None


def run_rows(
    session: EngineSession, output_names: Sequence[str], feeds: Mapping[str, Array], call: Call
) -> Arrays:
    """Runs a batch. If the batch size of the file is fixed, copies of the last row fill the batch.

    Args:
        session: `EngineSession`.
        output_names: list of strings.
        feeds: dict of arrays. All except scalars have the batch axis first, with the same size.
        call: `Call`.

    Returns:
        Dict of arrays by output name, without the results of the copies.

    Raises:
        ValueError: if there are more rows than the batch size of the file.
        Exception: of the engine's own classes, if the run fails.
    """
    size = fixed_batch_size(session)
    rows = max(len(each) for each in feeds.values() if each.ndim)
    if size is not None and rows > size:
        raise ValueError(
            f"Expected at most {size} rows, the batch size of the file. Received: {rows} rows."
        )
    if size is not None and rows < size:
        feeds = {name: _padded(each, size) if each.ndim else each for name, each in feeds.items()}
    outputs = session.run(output_names, feeds, call)
    # Copies, because a view would keep the results of the other rows in memory.
    is_padded = size is not None and rows < size
    return {
        name: each[:rows].copy() if is_padded else each
        for name, each in zip(output_names, outputs, strict=True)
    }


def _padded(array: Array, size: int) -> Array:
    return np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])
