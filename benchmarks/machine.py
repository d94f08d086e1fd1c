"""What a result depends on besides the code: the machine, the versions, the day."""

import datetime
import os
import platform
from importlib import metadata


def machine():
    """The processor and how many of its cores this process may use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "system": platform.system()}


def use_cores(number):
    """Keeps this process on the first cores that it may use, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])


def versions(*packages):
    """Versions of Python and of the packages, by name."""
    found = {"python": platform.python_version()}
    for package in packages:
        found[package] = metadata.version(package)
    return found


def date():
    """Today, as ISO 8601."""
    return datetime.date.today().isoformat()
