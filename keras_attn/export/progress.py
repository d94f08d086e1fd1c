"""Messages about the progress of an export, for the logger `keras_attn.export` of Python.

`logging` hides them by default. The command `keras-attn export` shows them on standard error.
"""

import logging

LOGGER = logging.getLogger("keras_attn.export")


def report_phase(name: str) -> None:
    """Logs the start of a phase, such as `"Tracing"`, at the level INFO."""
    LOGGER.info("%s", name)


def report_count(done: int, total: int) -> None:
    """Logs how much of the present phase is done, at the level DEBUG.

    Args:
        done: Int, number of finished items.
        total: Int, number of all items, or 0 if it is unknown.
    """
    if total:
        LOGGER.debug("%d of %d", done, total, extra={"done": done, "total": total})
