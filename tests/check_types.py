"""Prints the share of annotated public callables, and the ignored findings of the type checker.

    python tests/check_types.py

Fails unless each parameter and the result of each public function, method and constructor of
`PACKAGES` has an annotation.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("keras_attn", "keras_attn_checks", "keras_attn_commands", "export/keras_attn_runtime")
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


def main():
    failed = False
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
