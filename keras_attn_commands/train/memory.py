"""The memory that a training needs at least."""

import contextlib
import math
from pathlib import Path

import keras

from keras_attn_commands.train.settings import Warn


def report_memory(trainer: keras.Model, logits: int, advice: str, warn: Warn) -> None:
    """Prints a lower bound of the memory, and warns if less is available.

    The bound counts float32 numbers: weights, their gradients and the two moments of Adam; logits,
    their probabilities and gradients.

    Args:
        trainer: Built model.
        logits: Int, number of logits in a batch.
        advice: String, options that reduce the memory.
        warn: Function that shows the text of a warning.
    """
    weights = sum(math.prod(weight.shape) for weight in trainer.trainable_variables)
    least = 4 * (4 * weights + 3 * logits)
    mebibytes = math.ceil(least / 2**20)
    print(f"At least {mebibytes:,} MiB of memory for weights, optimizer and logits")
    available = _available_memory()
    if available is not None and available < least:
        warn(f"Only {available / 2**20:,.0f} MiB of memory are available. Use {advice}.")


def _available_memory():
    """Returns the bytes of available memory, `None` if the system does not tell."""
    sizes = []
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = dict(line.split(":") for line in lines)
        sizes.append(int(facts["MemAvailable"].split()[0]) * 1024)
    with contextlib.suppress(OSError, ValueError):  # the limit of a container, if it has one
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(sizes, default=None)
