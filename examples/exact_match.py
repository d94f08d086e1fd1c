"""Counts the translated lines that equal the lines of a reference.

    python examples/exact_match.py TRANSLATED REFERENCE [--minimum PERCENT]

The command prints the percentage of equal lines and some lines that differ. It fails if the
percentage is below the minimum. It requires only Python.
"""

import argparse
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description="Count lines that equal the reference.")
    parser.add_argument("translated", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument(
        "--minimum", type=float, default=0.0, help="minimum percentage of equal lines (default: 0)"
    )
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
    if percent < args.minimum:
        sys.exit(f"The exact match must be at least {args.minimum} %.")


if __name__ == "__main__":
    main()
