"""Prints which packages import which, and fails if one imports another that follows it.

    python tests/check_layout.py

`ORDER` is the order of the packages: each may import those before it alone. Imports inside of
functions count. It also counts where TensorFlow is imported, which `TENSORFLOW` allows.
"""

import ast
import collections
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "keras_attn"
ORDER = (
    "_types",
    "_files",
    "_backend",
    "_layer",
    "_serialization",
    "_drop_ins",
    "masks",
    "_decoding_state",
    "_random",
    "positions",
    "attention",
    "rnn",
    "transformer",
    "output_layers",
    "encoders",
    "decoders",
    "search",
    "models",
    "text",
    "training",
    "visualize",
    "export",
)
TENSORFLOW = ("_backend", "text", "training", "export")


def imported(path):
    """Names of the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name


def main():
    edges, tensorflow = collections.defaultdict(set), collections.Counter()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        package = parts[0]
        if package == "__init__":  # the public names
            continue
        for name in imported(path):
            first, _, rest = name.partition(".")
            if first == "keras_attn":
                other = rest.split(".")[0]
                if other not in ("", package):
                    edges[package, other].add(str(path.relative_to(ROOT)))
            elif first == "tensorflow":
                tensorflow[package] += 1
    unknown = {name for edge in edges for name in edge} - set(ORDER)
    upstream = {
        edge: files
        for edge, files in edges.items()
        if not unknown and ORDER.index(edge[1]) > ORDER.index(edge[0])
    }
    packages = sorted({edge[0] for edge in edges} | {edge[1] for edge in edges})
    print(f"{len(packages)} packages and modules at the top, {len(edges)} imports between them")
    for package in ORDER:
        print(f"  {package}: {', '.join(b for a, b in sorted(edges) if a == package) or 'nothing'}")
    print(
        "TensorFlow is imported in:",
        ", ".join(f"{name} {count}" for name, count in tensorflow.items()),
    )
    wrong = [
        f"{a} imports {b}, which follows it: {sorted(files)}" for (a, b), files in upstream.items()
    ]
    wrong += [f"unknown: {name}" for name in sorted(unknown)]
    wrong += [f"TensorFlow in {name}" for name in tensorflow if name not in TENSORFLOW]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
