"""Counts the translated lines that equal the lines of a reference.

    python examples/exact_match.py TRANSLATED REFERENCE

The program prints some lines that differ, and the percentage of equal lines. It requires only
Python.
"""

import argparse
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description="Count lines that equal the reference.")
    parser.add_argument("translated", metavar="TRANSLATED", type=Path, help="text file")
    parser.add_argument("reference", metavar="REFERENCE", type=Path, help="text file")
    args = parser.parse_args()

    # Split only at newlines: splitlines and read_text also split at other separators.
    translated, reference = (
        path.read_bytes().decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        for path in (args.translated, args.reference)
    )
    if len(translated) != len(reference):
        sys.exit(
            "Expected as many translated lines as reference lines. "
            f"Received: {len(translated)} in {args.translated}, "
            f"{len(reference)} in {args.reference}"
        )
    wrong = [pair for pair in zip(translated, reference, strict=True) if pair[0] != pair[1]]
    right = len(reference) - len(wrong)
    percent = 100 * right / len(reference)
    for ours, theirs in wrong[:5]:
        print(f"expected {theirs!r}, received {ours!r}")
    print(f"exact match: {percent:.2f} % ({right} of {len(reference)} lines)")


if __name__ == "__main__":
    main()
