"""Flags of a thread that traces a function for LiteRT, and all code that depends on them.

In `traced_for_litert`:

- `_backend/scan.py`: loops write to tensors, because LiteRT supports a `TensorArray` only if the
  shapes of its tensors are known at the conversion.
- `_backend/sequential_loops.py`: `map_sequentially` uses such a loop.
- `_backend/scatter.py`: `scatter_add` adds a scattered tensor, because the converter rounds
  `tf.tensor_scatter_nd_add`.
- `_search/search.py`: a search whose decoder can widen its state runs in `grow_in_blocks`.

In `grow_in_blocks`, because LiteRT allocates all tensors of a loop again after each step that
changes a shape:

- `_decoding_state/growing_buffer.py`: `extend` updates columns that `widen` has added.
- `_search/loop.py`: the loop widens the state after each block of steps.
"""

import contextlib
import threading
from collections.abc import Iterator


class _Flags(threading.local):
    is_traced = False
    is_in_blocks = False


_flags = _Flags()


@contextlib.contextmanager
def traced_for_litert() -> Iterator[None]:
    """Context manager: TensorFlow traces functions in the form that LiteRT runs.

    Functions that other threads trace at the same time do not change.
    """
    before, _flags.is_traced = _flags.is_traced, True
    try:
        yield
    finally:
        _flags.is_traced = before


def is_traced_for_litert() -> bool:
    """Returns whether the thread is in the context `traced_for_litert`."""
    return _flags.is_traced


@contextlib.contextmanager
def grow_in_blocks() -> Iterator[None]:
    """Context in which buffers with `growing=None` are enlarged one block of columns at a time.

    This applies to TensorFlow, where such a buffer otherwise grows in each step. Only the current
    thread is affected.
    """
    before, _flags.is_in_blocks = _flags.is_in_blocks, True
    try:
        yield
    finally:
        _flags.is_in_blocks = before


def is_in_blocks() -> bool:
    """Returns whether the thread is in the context `grow_in_blocks`."""
    return _flags.is_in_blocks
