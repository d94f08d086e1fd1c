"""Writes a results file: rows, command, machine and versions."""

import datetime
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

from machine import machine

FOLDER = Path(__file__).parent / "results"


def write_results(path, rows, found_versions, seed, **facts):
    """Writes a results file with the command, date and machine of this process.

    Args:
        path: `FOLDER/BENCHMARK.json` or `FOLDER/BENCHMARK-NAME.json`. The folder is created.
        rows: list of dicts, one for each measurement; see `report.py` for their keys.
        found_versions: dict of package versions, as returned by `versions`.
        seed: int, seed of the random inputs, or of the training if a run is measured.
        **facts: further entries, such as the settings. The entry `command` replaces the command of
            this process.
    """
    results = {
        "benchmark": path.stem.partition("-")[0],
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "seed": seed,
        **facts,
        "versions": found_versions,
        "rows": rows,
    }
    # Here, because Keras would count in the memory of a process that is measured.
    from keras_attn.files import atomic_replace

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_replace(path) as partial:
        text = json.dumps(results, indent=2, ensure_ascii=False)
        partial.write_text(f"{text}\n", encoding="utf-8")
    print(path)


def versions(*packages):
    """Returns the versions of Python and of the packages, by name."""
    found = {"python": platform.python_version()}
    for package in packages:
        found[package] = metadata.version(package)
    return found
