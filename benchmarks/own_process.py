"""A measurement in a process of its own, which no other one has warmed up or left full."""

import json
import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


def run(command, threads):
    """What a command prints as JSON in its last line; None where it prints nothing.

    The command finds this repository, and its libraries are told to use so many threads.
    """
    threads = str(threads)
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "OMP_NUM_THREADS": threads,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # TensorFlow has it on by itself where the processor has VNNI, and is twice as fast with it.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_NUM_INTEROP_THREADS": threads,
        "TF_NUM_INTRAOP_THREADS": threads,
    }
    process = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment
    )
    if process.returncode != 0:
        raise SystemExit(f"{command[1]} failed; its message is above.")
    return json.loads(process.stdout.splitlines()[-1]) if process.stdout else None
