"""Compares every architecture with transformers on padded sources, and prints a table.

    python tests/convert/architecture_table.py [NAME ...] [--sources 200]

The models are small and random. For each, the table has the largest difference of a logit from
transformers; the differences of both from transformers in float64; the fraction of equal ids of
greedy search and of beam search under each stop rule; the largest difference of the frequency of a
sampled token from its probability in standard deviations; the fraction of equal ids from the ONNX
file, its size, and the seconds of the export. The last column is the peak memory of the process
that computes the row. Each row has a process of its own, because the libraries do not return all
memory. It is not part of `make test-convert`, which compares one small model of each architecture.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROW = [sys.executable, Path(__file__).with_name("architecture_row.py")]
COLUMNS = (
    "architecture",
    "logits",
    "float64: ours, theirs",
    "greedy",
    "beam 4, true",
    "beam 4, false",
    'beam 4, "never"',
    "sampling",
    "ONNX",
    "MiB",
    "seconds",
    "GB",
)


def run(*arguments):
    """Runs a process for a row. Returns its lines and, if it fails, its last error."""
    found = subprocess.run([*ROW, *arguments], capture_output=True, text=True)
    errors = found.stderr.strip().splitlines() if found.returncode else []
    return found.stdout.splitlines(), errors[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures. Default: all")
    parser.add_argument("--sources", type=int, default=200)
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    failed = False
    for name in args.names or run()[0]:
        lines, errors = run(name, str(args.sources))
        failed |= bool(errors)
        print("\n".join([f"| {name} | failed: {errors[0]} |"] if errors else lines), flush=True)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
