"""Prints the share of annotated public callables, and the ignored findings of the type checker.

    python tests/check_types.py

Fails unless each parameter and the result of each public function, method and constructor of
`PACKAGES` has an annotation, or if a package of `LIMITS` has more occurrences of `Any`, or more
parameters without annotation, than recorded.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("keras_attn", "keras_attn_checks", "keras_attn_commands", "export/keras_attn_runtime")
LIMITS = {
    "keras_attn/export": (20, 0),
    "keras_attn/_models": (51, 0),
    "keras_attn/testing": (7, 0),
    "keras_attn/training": (85, 0),
}
"""Maximum numbers of `Any` and of parameters without annotation, as `reportExplicitAny` and
`reportMissingParameterType` of basedpyright count them. Lower them whenever they fall."""
IGNORE = re.compile(r"#\s*(?:pyright|type):\s*ignore")
PUBLIC_SPECIAL = ("__init__", "__call__", "__getitem__", "__iter__", "__len__")


def public_functions(node, prefix=""):
    """Yields the qualified name and the node of each public function of a module or a class."""
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public_functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from public_functions(child, prefix)
        elif isinstance(child, ast.FunctionDef):
            if not child.name.startswith("_") or child.name in PUBLIC_SPECIAL:
                yield prefix + child.name, child


def missing_annotations(function, is_method):
    """Returns the names of the parameters without an annotation, and "return"."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    is_static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
    if is_method and not is_static:
        positional = positional[1:]  # self or cls
    others = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    every = [*positional, *arguments.kwonlyargs, *others]
    missing = [each.arg for each in every if each.annotation is None]
    return missing if function.returns is not None else [*missing, "return"]


def count_any(tree):
    """Returns how often `Any` occurs outside of imports, also in quoted types."""
    count = sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            for part in ast.walk(getattr(node, name, None) or ast.Pass()):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    count += len(re.findall(r"\bAny\b", part.value))
    return count


def count_untyped(tree):
    """Returns the number of parameters without annotation, also of private functions."""
    return sum(
        len(set(missing_annotations(child, isinstance(node, ast.ClassDef))) - {"return"})
        for node in ast.walk(tree)
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.FunctionDef)
    )


def exceeds_limits():
    """Prints the counts for `LIMITS`, and returns whether one is too large."""
    failed = False
    for package, limits in LIMITS.items():
        paths = sorted((ROOT / package).rglob("*.py"))
        trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
        counts = sum(map(count_any, trees)), sum(map(count_untyped, trees))
        print(f"{package}: {counts[0]} Any, {counts[1]} parameters without annotation")
        if counts[0] > limits[0] or counts[1] > limits[1]:
            print(f"  expected at most {limits[0]} and {limits[1]}: write types instead of Any")
            failed = True
    return failed


def main():
    failed = exceeds_limits()
    for package in PACKAGES:
        total, incomplete, ignores = 0, [], []
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT)
            source = path.read_text(encoding="utf-8")
            for name, function in public_functions(ast.parse(source)):
                total += 1
                missing = missing_annotations(function, "." in name)
                if missing:
                    incomplete.append(f"{place}:{function.lineno} {name}: {', '.join(missing)}")
            for number, line in enumerate(source.splitlines(), start=1):
                if IGNORE.search(line):
                    ignores.append(f"{place}:{number}")
        print(
            f"{package}: {total - len(incomplete)} of {total} public callables annotated, "
            f"{len(ignores)} ignored findings"
        )
        if incomplete:
            print(*(f"  not annotated: {each}" for each in incomplete), sep="\n")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
