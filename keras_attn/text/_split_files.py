"""Training, validation and test files in a directory."""

from collections.abc import Sequence
from pathlib import Path

from keras_attn.text._generated_dates import Split

STEMS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "val", "dev"),
    "test": ("test",),
}
"""Dict from splits to the names that their files may have. A test set may continue its name."""


def count_held_out(total: int) -> int:
    """Returns how many training examples a split without files gets."""
    return min(1000, total // 20)


def find_split_files(directory: Path, suffixes: Sequence[str]) -> dict[Split, tuple[Path, ...]]:
    """Finds files such as `train.en` and `train.de.gz`.

    Args:
        directory: Directory path.
        suffixes: Strings, such as `("en", "de")`.

    Returns:
        Dict from the splits that have files to a path for each suffix. It contains `"train"`.

    Raises:
        FileNotFoundError: If a split lacks a suffix, or there are no training files.
        ValueError: If several files could be the same split.
    """
    files = {}
    for split, stems in STEMS.items():
        sides = [_files_by_stem(directory, suffix, split, stems) for suffix in suffixes]
        common = [stem for stem in sides[0] if all(stem in side for side in sides)]
        exact = [stem for stem in common if stem in stems]  # test.en is preferred to test_2016.en
        common = exact or common
        if len(common) > 1:
            raise ValueError(
                f"Expected one set of files for {split} in {str(directory)!r}. Received: "
                f"{[sides[0][stem].name for stem in common]}. Move the others to another directory."
            )
        if common:
            files[split] = tuple(side[common[0]] for side in sides)
        elif any(sides):
            received = sorted(file.name for side in sides for file in side.values())
            raise FileNotFoundError(
                f"Expected files with the suffixes {_enumerate(map(repr, suffixes))} for {split} "
                f"in {str(directory)!r}. Received: only {received}. Add the missing files."
            )
    if "train" not in files:
        names = _enumerate(f"train.{suffix}" for suffix in suffixes)
        received = sorted(file.name for file in directory.iterdir())[:10]
        raise FileNotFoundError(
            f"Expected {names}, plain or .gz, in {str(directory)!r}. Received: {received}. Rename "
            "your files, or change the suffixes."
        )
    return files


def _files_by_stem(
    directory: Path, suffix: str, split: Split, stems: tuple[str, ...]
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in sorted(directory.iterdir()):
        name = file.name.removesuffix(".gz")
        stem = name.removesuffix(f".{suffix}")
        if stem == name or not (stem in stems or (split == "test" and stem.startswith("test"))):
            continue
        if stem in found:
            raise ValueError(
                f"Expected one file {name} in {str(directory)!r}. Received: {found[stem].name} and "
                f"{file.name}. Remove one of them."
            )
        found[stem] = file
    return found


def _enumerate(names):
    """Returns names as "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
