"""Messages about the progress of a conversion or an export, for the logger `keras_attn` of Python.

Python hides them by default. The commands of `keras-attn` show them on standard error.
"""

import logging

LOGGER = logging.getLogger("keras_attn")


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
        LOGGER.debug("%d of %d", done, total)
