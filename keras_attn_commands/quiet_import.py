"""Hides the log lines that TensorFlow's C++ code writes while it is imported."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator

from keras_attn_commands.interruption import interruptible

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""Environment variable of TensorFlow: 0 shows all log lines, 1 hides information, 2 also hides
warnings, 3 also hides errors."""

_STDERR = 2
_HIDDEN = re.compile(
    rb"([IWE]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IWE] |WARNING: All log messages before absl|"
    rb"To enable the following instructions: )"
)


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Context manager that hides log lines of C++ code, except fatal errors.

    The context manager sets the log level for the rest of the process. Even error lines are hidden,
    because TensorFlow logs an error about CUDA on machines without a GPU. Errors of a command are
    not affected: they are Python exceptions. TensorFlow 2.21 logs some lines before it reads the
    log level, so the standard error of the block is collected and filtered. All other lines, such
    as tracebacks, appear at the end of the block; if the block raises an error, all lines do.
    With the log level 0 in the environment, nothing is hidden.
    """
    if os.environ.get(LOG_LEVEL) == "0":
        yield
        return
    os.environ[LOG_LEVEL] = "3"
    try:
        stderr = os.dup(_STDERR)
    except OSError:  # the process has no standard error
        yield
        return
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), _STDERR)
        hidden = re.compile(rb"(?!)")
        try:
            with interruptible():
                yield
            hidden = _HIDDEN
        except KeyboardInterrupt:
            hidden = _HIDDEN
            raise
        finally:
            os.dup2(stderr, _STDERR)
            os.close(stderr)
            log.seek(0)
            shown = b"".join(line for line in log if not hidden.match(line))
            if shown:
                os.write(_STDERR, shown)
