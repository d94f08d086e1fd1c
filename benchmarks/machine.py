"""Processor, load and cores of the machine."""

import os
import platform
import sys

INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
"""Instruction sets of x86 that matrix libraries select from, with their names in Linux."""


def machine():
    """Returns the processor, its instruction sets and the number of cores for this process."""
    try:
        with open("/proc/cpuinfo") as file:
            pairs = [line.partition(":") for line in file]
    except OSError:
        pairs = []
    found = {name.strip(): value.strip() for name, _, value in pairs}
    model = found.get("model name", platform.processor() or platform.machine())
    flags = found.get("flags", "").split()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": model,
        "instructions": [each for each in INSTRUCTIONS if each in flags],
        "cores": cores,
        "system": platform.system(),
    }


def use_cores(number):
    """Binds this process to its first `number` cores, if the system supports it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])


def load_average():
    """Returns the load average. Warns if it is too high for measurements."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(
            f"Warning: the machine is busy (load {load:.1f}). Times are unreliable.",
            file=sys.stderr,
        )
    return round(load, 2)
