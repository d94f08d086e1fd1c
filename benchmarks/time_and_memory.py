"""Measures the time and memory of function calls in this process."""

import resource
import statistics
import time


def time_and_memory(prepare, sizes, calls, clock=time.perf_counter):
    """Returns the time of a call and the peak memory so far, for each size.

    The memory is the peak resident size of the process minus its resident size before the first
    call with an item of `sizes`, so it does not include libraries and code.

    Args:
        prepare: function that takes a size and returns the function to time, without arguments.
        sizes: list of ints, increasing.
        calls: int, number of calls of each size. The first is not timed.
        clock: function that returns seconds. With one thread, `time.process_time` does not depend
            on other processes of the machine.

    Returns:
        List of dicts of `seconds` and `mebibytes`.
    """
    for short in (8, 16):  # Two sizes, so that a `tf.function` is traced with dynamic sizes.
        prepare(short)()
    before = peak_mebibytes()
    return [
        {
            "seconds": median_seconds(prepare(size), calls, clock),
            "mebibytes": peak_mebibytes() - before,
        }
        for size in sizes
    ]


def median_seconds(call, calls, clock=time.perf_counter):
    """Returns the median time of all calls except the first."""
    seconds = []
    for _ in range(calls):
        started = clock()
        call()
        seconds.append(clock() - started)
    return statistics.median(seconds[1:])


def peak_mebibytes():
    """Returns the peak resident size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux


def medians(rounds):
    """Returns the medians for each size over several rounds of `time_and_memory`."""
    return [
        {name: statistics.median(found[name] for found in of_size) for name in of_size[0]}
        for of_size in zip(*rounds, strict=True)
    ]
