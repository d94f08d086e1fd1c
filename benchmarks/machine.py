"""The machine that a result depends on: what it is, how busy, and how much of it is used."""

import os
import platform
import sys

INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
"""Of x86: what the libraries for matrix products choose between, as Linux calls them."""


def machine():
    """The processor, its instructions, and how many of its cores this process may use."""
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
    """Keeps this process on the first cores that it may use, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])


def load_average():
    """How busy the machine is; says so if that spoils a measurement."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"Other processes are busy (load {load:.1f}): do not trust times.", file=sys.stderr)
    return round(load, 2)
