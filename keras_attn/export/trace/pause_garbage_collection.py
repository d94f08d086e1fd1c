import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Keeps Python from looking for cyclic garbage inside the block.

    An export makes millions of objects, and nearly all are needed to its end. To look through them
    again and again takes an eighth of the time of a conversion.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
