"""The machine that a result depends on: what it is, how busy, and how much of it is used."""

import os
import platform
import sys


def machine():
    """The processor and how many of its cores this process may use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": platform.system()}


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
