"""Reads and runs the code blocks of the guides."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(page, language):
    """Returns the blocks of a page of `docs/` in a language, such as `"python"` or `""`."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def run_block(page, index, names):
    """Runs a Python block of a page; adds what it defines to `names`, and returns them."""
    code = blocks(page, "python")[index]
    exec(compile(code, f"docs/{page}, block {index}", "exec"), names)
    return names


def run_page(page, names):
    """Runs all Python blocks of a page, one after the other."""
    for index in range(len(blocks(page, "python"))):
        run_block(page, index, names)
    return names


def commands(page, program):
    """Returns the arguments of each call of a program in the shell blocks of a page."""
    calls = []
    for block in blocks(page, ""):
        for line in block.splitlines():
            words = shlex.split(line, comments=True) if program in line else []
            if program not in words:
                continue
            words = words[words.index(program) + 1 :]
            end = next((n for n, word in enumerate(words) if word in ("<", ">", "|")), len(words))
            calls.append(words[:end])
    return calls
