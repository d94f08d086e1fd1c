"""Runs each measurement in a separate process, so that measurements do not affect each other."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from arguments import settings_of

REPOSITORY = Path(__file__).parent.parent


def run(command, threads):
    """Runs a command. Returns the JSON in its last line of output, or `None` without output.

    The environment limits the threads of the libraries and makes this repository importable.
    """
    threads = str(threads)
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "OMP_NUM_THREADS": threads,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # TensorFlow is twice as fast with oneDNN. It enables oneDNN by default only for processors
        # with VNNI.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_NUM_INTEROP_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
    }
    process = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment
    )
    if process.returncode != 0:
        raise SystemExit(f"{command[1]} failed. See its error above.")
    return json.loads(process.stdout.splitlines()[-1]) if process.stdout else None


def measure_in_turn(script, sides, args, **what):
    """Measures all sides in turn, in `args.rounds` rounds. Each measurement has its own process.

    Args:
        script: path of a script that ends with `main_or_measurement(main, measure)`.
        sides: list of strings, names of the alternatives that are compared.
        args: arguments of the script.
        **what: further arguments of `measure(args, side, **what)`.

    Returns:
        Dict from a side to the list of results of `measure`, as JSON.
    """
    found = {side: [] for side in sides}
    for number in range(args.rounds):
        for side in sides:
            measurement = json.dumps([settings_of(args), side, what])
            command = [sys.executable, script, "--measure", measurement]
            found[side].append(run(command, args.threads))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    return found


def main_or_measurement(main, measure):
    """Runs a benchmark, or one measurement if `measure_in_turn` has started this process."""
    if sys.argv[1:2] == ["--measure"]:
        settings, side, what = json.loads(sys.argv[2])
        print(json.dumps(measure(Namespace(**settings), side, **what)))
    else:
        main()
