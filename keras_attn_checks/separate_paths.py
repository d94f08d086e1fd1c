"""Checks that a program does not write to the files and folders that it reads."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_EQUAL = "the same as"


def separate_paths_problem(
    outputs: Mapping[str, Path | None],
    inputs: Mapping[str, Path | None],
    only_equal: bool = False,
) -> str | None:
    """Returns an error message if an output is an input, contains an input or is in an input.

    Symbolic links, hard links, relative paths and other spellings of the same path are followed,
    also the links in an input folder.

    Args:
        outputs: Dict from names to paths that a program writes. The message contains the name, such
            as `"--out"`. The value `None` is skipped.
        inputs: Dict from names to paths of files and folders that the program reads. Missing paths
            and the value `None` are skipped.
        only_equal: Bool, whether only equal paths are an error. Use `True` for data, if the program
            writes single files to a folder and does not replace the folder. Defaults to `False`.

    Returns:
        String, an error message that names the paths and what to do, or `None`.

    Example:

    >>> from pathlib import Path
    >>> from keras_attn.files import separate_paths_problem
    >>> separate_paths_problem({"--out": Path("a/../run")}, {"--run": Path("run")}) is None
    True
    """
    for name, output in outputs.items():
        for other, path in inputs.items():
            if output is None or path is None or not os.path.lexists(path):
                continue
            relation = _relation(output, path)
            if relation == _EQUAL or (relation is not None and not only_equal):
                return (
                    f"Expected {name} outside of {other}, which is read. Received: {name}="
                    f"{str(output)!r}, {relation} {other}={str(path)!r}. Choose another path."
                )
    return None


def require_separate_paths(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]
) -> None:
    """Raises a `FileExistsError` with the message of `separate_paths_problem`, if there is one."""
    problem = separate_paths_problem(outputs, inputs)
    if problem is not None:
        raise FileExistsError(problem)


def _relation(output: Path, path: Path) -> str | None:
    """Returns how an output overlaps an input, as part of a sentence, or `None`."""
    if _is_same(output, path):
        return _EQUAL
    if _is_in(path, output):
        return "which contains"
    if path.is_dir() and _is_in(output, path):
        return "which is in"
    if any(_is_same(link, output) or _is_in(link, output) for link in _links(path)):
        return "which contains a link target of"
    return None


def _is_in(path: Path, folder: Path) -> bool:
    """Returns whether a path is in a folder, or in one of its subfolders."""
    return any(_is_same(parent, folder) for parent in path.resolve().parents)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # at least one of the paths does not exist
        return path.resolve() == other.resolve()


def _links(folder: Path) -> Iterator[Path]:
    """Yields the symbolic links in a folder and its subfolders."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                yield path
