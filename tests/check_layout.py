"""Prints what packages consist of, and fails if one part imports another that follows it.

    python tests/check_layout.py

It counts lines: all, those of docstrings, and those of code (without docstrings, comments and blank
lines).

The rooms of a package are its folders and its loose modules. An arrow leads from a room to another
that it imports, also inside of functions and for types only. `ORDERS` lists the rooms of packages
in order: each may import those before it alone. The number of floors is the length of the longest
chain of arrows; a circle is a chain that returns to its first room.

It also counts where TensorFlow is imported, which `TENSORFLOW` allows, and refuses private names of
Keras, TensorFlow and tf2onnx outside of `PRIVATE_NAMES`. The package `keras_attn_commands` follows
all of `keras_attn`: only programs, files named `__main__.py`, import it. The package
`keras_attn_checks` precedes all: it imports only the standard library.

Names of private modules and packages begin with `_`. A public package exports its public names in
`__all__`, and examples use no others. An example has at most 150 lines and imports no other one.
"""

import ast
import collections
import graphlib
import re
import sys
import tokenize
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "keras_attn"
PACKAGES = {
    "keras_attn": ROOT,
    "keras_attn.export": ROOT / "export",
    "keras_attn_commands": REPOSITORY / "keras_attn_commands",
    "keras_attn_runtime": REPOSITORY / "export" / "keras_attn_runtime",
}
ORDERS = {
    "keras_attn": """
        _types _files files _backend _layer _serialization _drop_ins _masks masks
        _decoding_state _random _positions _attention _rnn _transformer _output_layers
        _encoders _decoders _search _models forecasting testing text training visualize convert
        export
    """.split(),
    "keras_attn.export": """
        _types _options _report _export_error _require _run_in_background _preconditions
        _passes _trace _checks _formats _export_model __main__
    """.split(),
    "keras_attn_runtime": """
        _array_types _generation_result _errors _files _calls _file_format _text _file_info
        _engines _models _inputs _translate _classify _series _commands __main__
    """.split(),
}
TENSORFLOW = ("_backend", "text", "training", "export")
PRIVATE_NAMES = ROOT / "_backend" / "private_names.py"
PRIVATE_MODULES = ("keras.src", "tensorflow.core", "tensorflow.python", "tf2onnx")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
"""Types of tokens that are no code."""
MOST_EXAMPLE_LINES = 150
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
    """Names in `__all__` and `_LAZY` of a package or module of `keras_attn`."""
    place = ROOT.joinpath(*package.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return [
        name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "_LAZY")
        for name in ast.literal_eval(node.value)
    ]


def is_public(name):
    """Whether `keras_attn.NAME`, or `keras_attn.PACKAGE.NAME`, is public."""
    package, _, name = name.rpartition(".")
    first, _, rest = package.partition(".")
    is_known = not rest or (rest in public_names(first) and "." not in rest)
    return not package or (is_known and name in public_names(package))


def example_problems():
    """Yields a message for each example that is too long to read at once, or is not independent.

    An example can be copied and run alone. It imports the exporter only where it exports, so that
    it trains on backends other than TensorFlow.
    """
    paths = sorted((ROOT.parent / "examples").glob("*.py"))
    others = {path.stem for path in paths}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if (lines := len(text.splitlines())) > MOST_EXAMPLE_LINES:
            yield f"examples/{path.name} has {lines} lines, more than {MOST_EXAMPLE_LINES}"
        for name in imported(path):
            first = name.partition(".")[0]
            if first == "keras_attn" and not is_public(name) or "._" in name:
                yield f"examples/{path.name} imports {name}, which is not public"
            if first in others:
                yield f"examples/{path.name} imports {first}, another example"
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and node.module == "keras_attn.export":
                yield f"examples/{path.name} imports keras_attn.export before it exports"


def imports_of_checks():
    """Yields a message for each import of `keras_attn_checks` that is not in Python itself."""
    for path in sorted((ROOT.parent / "keras_attn_checks").glob("*.py")):
        for name in imported(path):
            first = name.partition(".")[0]
            if first != "keras_attn_checks" and first not in sys.stdlib_module_names:
                yield f"keras_attn_checks/{path.name} imports {name}"


def rooms_of(folder):
    """Dict from each room of a package to its files."""
    rooms = collections.defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        rooms[path.relative_to(folder).with_suffix("").parts[0]].append(path)
    rooms.pop("__init__", None)  # the public names
    return dict(rooms)


def arrows_between(package, rooms):
    """Dict from pairs of rooms, of which the first imports the second, to the importing files."""
    arrows = collections.defaultdict(set)
    for room, paths in rooms.items():
        for path in paths:
            for name in imported(path):
                if name.startswith(f"{package}."):
                    other = name.removeprefix(f"{package}.").partition(".")[0]
                    if other in rooms and other != room:
                        arrows[room, other].add(str(path.relative_to(REPOSITORY)))
    return arrows


def floors_and_circles(arrows):
    """Number of floors, and a list of circles, each a list of rooms. One arrow of each is cut."""
    imports, circles = collections.defaultdict(list), []
    for room, other in sorted(arrows):
        imports[room].append(other)
    while True:
        sorter = graphlib.TopologicalSorter(imports)
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            circles.append(error.args[1][::-1])
            room, other, *_ = circles[-1]
            imports[room].remove(other)
            continue
        floors = 0
        while sorter.is_active():
            sorter.done(*sorter.get_ready())
            floors += 1
        return floors, circles


def line_counts(paths):
    """Numbers of all lines, of docstring lines, and of lines with code."""
    lines = docstring_lines = code_lines = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        docstrings = set()
        for node in ast.walk(ast.parse(text)):
            body = getattr(node, "body", None)
            first = body[0] if isinstance(body, list) and body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, first.end_lineno + 1))
        docstring_lines += len(docstrings)
        with open(path, "rb") as file:
            code = set()
            for token in tokenize.tokenize(file.readline):
                if token.type not in NO_CODE:
                    code.update(range(token.start[0], token.end[0] + 1))
        code_lines += len(code - docstrings)
    return lines, docstring_lines, code_lines


def check_rooms(package):
    """Prints the rooms of a package; yields a message for each arrow that should not be."""
    rooms = rooms_of(PACKAGES[package])
    arrows = arrows_between(package, rooms)
    floors, circles = floors_and_circles(arrows)
    paths = list(PACKAGES[package].rglob("*.py"))
    lines, docstring_lines, code_lines = line_counts(paths)
    num_folders = sum((PACKAGES[package] / room).is_dir() for room in rooms)
    print(
        f"{package}: {len(paths)} files, {lines} lines ({docstring_lines} of docstrings, "
        f"{code_lines} of code), {len(rooms)} rooms ({num_folders} folders, "
        f"{len(rooms) - num_folders} modules), {len(arrows)} arrows, {floors} floors, "
        f"{len(circles)} circles"
    )
    for circle in circles:
        print(f"  circle: {' > '.join(circle)}")
    order = ORDERS.get(package)
    if order is None:
        return
    for room in sorted(set(rooms) ^ set(order)):
        yield f"{package}.{room} is missing in {'the order' if room in rooms else 'the package'}"
    for (room, other), files in sorted(arrows.items()):
        if {room, other} <= set(order) and order.index(other) > order.index(room):
            yield f"{package}.{room} imports {other}, which follows it: {sorted(files)}"


def main():
    wrong = [message for package in PACKAGES for message in check_rooms(package)]
    tensorflow = collections.Counter()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        for name in imported(path):
            first = name.partition(".")[0]
            if first == "keras_attn_commands" and parts[-1] != "__main__":
                wrong.append(f"{path.relative_to(ROOT)} imports keras_attn_commands, which follows")
            elif first == "tensorflow":
                tensorflow[parts[0]] += 1
    counts = ", ".join(f"{name} {number}" for name, number in tensorflow.items())
    print("TensorFlow is imported in:", counts)
    wrong += [f"TensorFlow in {name}" for name in tensorflow if name not in TENSORFLOW]
    wrong += private_uses(sorted(ROOT.rglob("*.py")))
    wrong += example_problems()
    wrong += imports_of_checks()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
