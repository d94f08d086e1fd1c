"""Time and memory of the calls of a function in this process."""

import resource
import statistics
import time


def time_and_memory(prepare, sizes, calls):
    """Time of a call and memory at the peak so far, for each size.

    The memory is the largest resident size of the process less that before the first of the sizes,
    so without the libraries and the program.

    Args:
        prepare: function from a size to a function of no arguments, the call of that size.
        sizes: list of ints, rising.
        calls: int, calls of each size, of which the first is not timed.

    Returns:
        List of dicts of `seconds` and `mebibytes`.
    """
    for short in (8, 16):  # Two, so that a `tf.function` is traced for all sizes.
        prepare(short)()
    before = peak_mebibytes()
    return [
        {
            "seconds": median_seconds(prepare(size), calls),
            "mebibytes": peak_mebibytes() - before,
        }
        for size in sizes
    ]


def median_seconds(call, calls):
    """Of so many calls, the first left out."""
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def peak_mebibytes():
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux


def medians(rounds):
    """What `time_and_memory` returned in several rounds, as the medians for each size."""
    return [
        {name: statistics.median(found[name] for found in of_size) for name in of_size[0]}
        for of_size in zip(*rounds, strict=True)
    ]
