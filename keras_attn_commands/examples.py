"""`keras-attn examples`: copies the example programs to a directory."""

import argparse
import ast
import shlex
import sys
import tempfile
from pathlib import Path

HELP = "copy the example programs to a directory"
STOPPED = "Stopped. Run the same command to copy all programs."
DESCRIPTION = (
    "Copies the example programs of this release to DIR. Each is one short file with the public "
    "API, to read, run and change. A program that you changed in DIR is kept, unless --overwrite "
    "is passed."
)
SHOWN = "train_translation.py"
"""The program that the command shows how to run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command to its parser."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="directory; created if needed")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace programs in DIR that are different"
    )


def run(arguments: argparse.Namespace) -> int:
    """Copies the programs and lists them."""
    directory = arguments.directory
    try:
        programs = {path.name: path.read_bytes() for path in sorted(folder().glob("*.py"))}
        directory.mkdir(parents=True, exist_ok=True)
        kept = [] if arguments.overwrite else changed_programs(directory, programs)
        for name, content in programs.items():
            if name not in kept:
                replace(directory / name, content)
    except OSError as error:
        print(f"Expected a directory to write to. Received: {error}.", file=sys.stderr)
        return 1
    width = max(map(len, programs))
    for name, content in programs.items():
        print(f"{name:{width}}  {summary(content)}")
    print(f"Wrote {len(programs) - len(kept)} programs to {directory}")
    if kept:
        print(
            f"Kept {', '.join(kept)}: different from this release. --overwrite replaces them.",
            file=sys.stderr,
        )
    program = shlex.quote(str(directory / SHOWN))
    print(f"Run one, as its first lines describe: python {program}")
    return 0


def folder() -> Path:
    """Returns the folder of the programs: in an installed package, or else in the checkout."""
    package = Path(__file__).parent
    installed = package / "example_programs"
    return installed if installed.is_dir() else package.parent / "examples"


def changed_programs(directory: Path, programs: dict[str, bytes]) -> list[str]:
    """Returns the names of the programs that are different in a directory."""
    return [
        name
        for name, content in programs.items()
        if (directory / name).exists() and (directory / name).read_bytes() != content
    ]


def replace(path: Path, content: bytes) -> None:
    """Writes a file, or nothing if the process is interrupted."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as temporary:
        partial = Path(temporary, path.name)
        partial.write_bytes(content)
        partial.replace(path)


def summary(content: bytes) -> str:
    """Returns the first line of a program's docstring."""
    docstring = ast.get_docstring(ast.parse(content)) or ""
    return docstring.partition("\n")[0]
