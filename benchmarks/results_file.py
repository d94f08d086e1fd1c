"""What a benchmark keeps: its rows, with all that they depend on besides the code."""

import datetime
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

from machine import machine

FOLDER = Path(__file__).parent / "results"


def write_results(path, rows, found_versions, seed, **facts):
    """Writes a results file with command, date and machine of this process.

    Args:
        path: `FOLDER/BENCHMARK.json` or `FOLDER/BENCHMARK-WHAT.json`; the folder is made.
        rows: list of dicts, a measurement each; `report.py` knows what they may hold.
        found_versions: dict of the versions of what ran, as from `versions`.
        seed: int, of what was drawn; of the training, where a trained run is measured.
        **facts: anything else, such as the settings; also the command, where it was another one.
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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


def versions(*packages):
    """Versions of Python and of the packages, by name."""
    found = {"python": platform.python_version()}
    for package in packages:
        found[package] = metadata.version(package)
    return found
