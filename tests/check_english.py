"""Prints how often "of" stands in 1,000 words of public docstrings, for each package.

    python tests/check_english.py

Compound nouns ("tokenizer files") read faster than genitives ("the files of the tokenizer").
Docstrings of Keras, KerasHub and equinox contain 24 to 28. `LIMIT` holds for all packages
together: lower it when the number falls, and never raise it.
"""

import ast
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PACKAGES = (
    *sorted(path for path in (REPOSITORY / "keras_attn").iterdir() if path.name != "__pycache__"),
    REPOSITORY / "keras_attn_checks",
    REPOSITORY / "keras_attn_commands",
    REPOSITORY / "export" / "keras_attn_runtime",
)
LIMIT = 39.0
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path):
    """Yields the docstrings of a module and of its public classes, methods and functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, DEFINITIONS) and not getattr(node, "name", "").startswith("_"):
            yield ast.get_docstring(node) or ""


def words(package):
    """Words of the public docstrings of a folder or of a module."""
    paths = sorted(package.rglob("*.py")) if package.is_dir() else [package]
    text = "\n".join(docstring for path in paths for docstring in docstrings(path))
    return re.findall(r"[A-Za-z]+", text)


def main():
    total = []
    for package in PACKAGES:
        package_words = words(package)
        total += package_words
        if len(package_words) > 200:
            name = package.relative_to(REPOSITORY)
            print(f"{rate(package_words):5.1f}  {len(package_words):6}  {name}")
    print(f'{rate(total):5.1f}  {len(total):6}  "of" in 1,000 words, at most {LIMIT}')
    return rate(total) > LIMIT


def rate(package_words):
    return 1000 * package_words.count("of") / len(package_words)


if __name__ == "__main__":
    sys.exit(main())
