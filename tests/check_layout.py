"""Prints which packages import which, and fails if one imports another that follows it.

    python tests/check_layout.py

`ORDER` is the order of the packages: each may import those before it alone. Imports inside of
functions count. It also counts where TensorFlow is imported, which `TENSORFLOW` allows, and refuses
private names of Keras, TensorFlow and tf2onnx outside of `PRIVATE_NAMES`. The package
`keras_attn_commands` follows all of them: only programs, files named `__main__.py`, import it. The
package `keras_attn_checks` precedes all of them: it imports only the standard library.

Examples use public names only: those in `__all__` of `keras_attn` and of its public packages.
Benchmarks may also measure other modules, but none whose name begins with `_`.
"""

import ast
import collections
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "keras_attn"
ORDER = (
    "_types",
    "_files",
    "files",
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
    "forecasting",
    "testing",
    "text",
    "training",
    "visualize",
    "convert",
    "export",
)
TENSORFLOW = ("_backend", "text", "training", "export")
PRIVATE_NAMES = ROOT / "_backend" / "private_names.py"
PRIVATE_MODULES = ("keras.src", "tensorflow.core", "tensorflow.python", "tf2onnx")
NAMED_TUPLE = {"_asdict", "_fields", "_replace"}
"""Public names of named tuples."""


def imported(path):
    """Names of the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name


def private_uses(paths):
    """Sentences about private names of other packages in modules, without `PRIVATE_NAMES`."""
    defined, used = set(NAMED_TUPLE), collections.defaultdict(set)
    for path in paths:
        if path == PRIVATE_NAMES:
            continue
        place = str(path.relative_to(ROOT))
        for name in imported(path):
            if name.startswith(tuple(f"{module}." for module in PRIVATE_MODULES)):
                used[name].add(place)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute) and re.match("_(?!keras_attn)[a-z]", node.attr):
                if ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store):
                    defined.add(node.attr)
                else:
                    used[node.attr].add(place)
    return [
        f"private name {name} of another package: {sorted(places)}"
        for name, places in sorted(used.items())
        if name not in defined
    ]


def public_names(package):
    """Names in `__all__` of a package or module of `keras_attn`."""
    place = ROOT.joinpath(*package.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    return []


def is_public(name):
    """Whether `keras_attn.NAME`, or `keras_attn.PACKAGE.NAME`, is public."""
    package, _, name = name.rpartition(".")
    first, _, rest = package.partition(".")
    is_known = not rest or (rest in public_names(first) and "." not in rest)
    return not package or (is_known and name in public_names(package))


def private_imports():
    """Yields a message for each name in examples and benchmarks that should not be used there."""
    for path in sorted((ROOT.parent / "examples").glob("*.py")):
        for name in imported(path):
            if name.partition(".")[0] == "keras_attn" and not is_public(name):
                yield f"examples/{path.name} imports {name}, which is not public"
    for path in sorted((ROOT.parent / "benchmarks").glob("*.py")):
        for name in imported(path):
            if name.startswith("keras_attn._") and name != "keras_attn.__version__":
                yield f"benchmarks/{path.name} imports {name}, which is private"


def imports_of_checks():
    """Yields a message for each import of `keras_attn_checks` that is not in Python itself."""
    for path in sorted((ROOT.parent / "keras_attn_checks").glob("*.py")):
        for name in imported(path):
            first = name.partition(".")[0]
            if first != "keras_attn_checks" and first not in sys.stdlib_module_names:
                yield f"keras_attn_checks/{path.name} imports {name}"


def main():
    edges, tensorflow, commands = collections.defaultdict(set), collections.Counter(), []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        package = parts[0]
        if package == "__init__":  # the public names
            continue
        for name in imported(path):
            first, _, rest = name.partition(".")
            if first == "keras_attn_commands" and parts[-1] != "__main__":
                commands.append(str(path.relative_to(ROOT)))
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
    wrong += [f"{name} imports keras_attn_commands, which follows" for name in commands]
    wrong += [f"TensorFlow in {name}" for name in tensorflow if name not in TENSORFLOW]
    wrong += private_uses(sorted(ROOT.rglob("*.py")))
    wrong += private_imports()
    wrong += imports_of_checks()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
