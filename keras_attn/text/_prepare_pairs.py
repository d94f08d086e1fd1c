import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.lines import read_lines
from keras_attn.text._generated_dates import SPLITS, Split
from keras_attn.text._split_files import count_held_out, find_split_files
from keras_attn_checks.separate_paths import separate_paths_problem

Pair: TypeAlias = tuple[str, str]
SIDES = ("source", "target")
MOST_EMPTY_LINES = 10
"""Maximum number of lines with a blank side that `PairCounts` contains."""


@dataclasses.dataclass
class PairCounts:
    """Numbers of sentence pairs in a split, a result of `prepare_pairs`.

    Args:
        pairs: Int, number of pairs in the written files. Defaults to `0`.
        empty: Int, number of pairs left out because a side is blank. Defaults to `0`.
        repeated: Int, number of pairs that are also in the training data. They remain in the files.
            Always 0 for the training data. Defaults to `0`.
        origin: String, the files from which the pairs were read. Defaults to `""`.
        empty_lines: Tuple of ints, the lines of these files with a blank side, counted from 1. At
            most the first ten. Defaults to `()`.

    Example:

    >>> from keras_attn.text import PairCounts
    >>> PairCounts(pairs=1000, empty=2, origin="val.en and val.de")
    PairCounts(pairs=1000, empty=2, repeated=0, origin='val.en and val.de', empty_lines=())
    """

    pairs: int = 0
    empty: int = 0
    repeated: int = 0
    origin: str = ""
    empty_lines: tuple[int, ...] = ()


def prepare_pairs(
    path: str | PathLike[str],
    directory: str | PathLike[str],
    source: str | None = None,
    target: str | None = None,
) -> dict[Split, PairCounts]:
    r"""Reads sentence pairs for training, validation and test, and writes them as parallel files.

    `path` is one of:

    - A directory of parallel files with the suffixes `source` and `target`, such as `train.en` and
      `train.de`, plain or `.gz`. Line i of one file translates line i of the other. The names are
      `train`, `valid` (or `val` or `dev`) and `test` (or a name that begins with `test`).
    - A text file, plain or `.gz`, with a sentence pair in each line: source and target, separated
      by a tab. Further columns are ignored.

    If there are no files for validation or test, a twentieth of the training pairs, at most 1,000,
    is used for each. Pairs with equal sources stay in the same split, and the same files are always
    split in the same way.

    All texts are UTF-8. Spaces around a sentence and a byte order mark are removed. Pairs with a
    blank side are left out and counted, with their line numbers. All other pairs keep their order.
    The text is read line by line, so a corpus may be larger than the memory.

    Args:
        path: Path of a directory or text file.
        directory: Path of the directory for the files `train.source`, `train.target`,
            `valid.source` and so on. It is created if it does not exist. Its files are replaced.
        source: String, suffix of the source files, such as `"en"`. Required if `path` is a
            directory. Defaults to `None`.
        target: String, suffix of the target files. Defaults to `None`.

    Returns:
        Dict from `"train"`, `"valid"` and `"test"` to `PairCounts`.

    Raises:
        FileNotFoundError: If `path` or the training files do not exist.
        ValueError: If two parallel files have different numbers of lines, several files could be
            the same split, a line of a text file has no tab, a file is not UTF-8, a split would
            contain no pairs, or a result would replace the input.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.text import prepare_pairs
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"{number} dogs\t{number} Hunde\n" for number in range(2000)]
    >>> _ = (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    >>> counts = prepare_pairs(folder / "pairs.tsv", folder / "data")
    >>> sum(count.pairs for count in counts.values())
    2000
    >>> sorted(path.name for path in (folder / "data").iterdir())[:3]
    ['test.source', 'test.target', 'train.source']
    """
    path, directory = Path(path), Path(directory)
    results = [f"{split}.{side}" for split in SPLITS for side in SIDES]
    outputs = {"directory": directory, **{name: directory / name for name in results}}
    if problem := separate_paths_problem(outputs, {"path": path}, only_equal=True):
        raise ValueError(problem)
    readers = _open(path, source, target)
    missing = [split for split in SPLITS if split not in readers]
    directory.mkdir(parents=True, exist_ok=True)
    counts = {split: PairCounts(origin=readers[split][0]) for split in readers}
    shares = {}
    if missing:
        origin, pairs = readers["train"]
        total = sum(1 for _ in pairs)
        counts |= {split: PairCounts(origin=f"a part of {origin}") for split in missing}
        shares = {split: count_held_out(total) / max(1, total) for split in missing}
        readers["train"] = _open(path, source, target)["train"]
    held_out: dict[bytes, list[Split]] = {}
    with ExitStack() as stack:
        files = {}
        for split in SPLITS:
            for side in SIDES:
                partial = stack.enter_context(atomic_replace(directory / f"{split}.{side}"))
                opened = stack.enter_context(open(partial, "w", encoding="utf-8", newline="\n"))
                files[split, side] = opened
        for split in sorted(readers, key=lambda split: split == "train"):  # training data last
            for line, pair in enumerate(readers[split][1], start=1):
                actual = _held_out_split(pair[0], shares) if split == "train" else split
                if not all(pair):
                    counts[actual].empty += 1
                    if counts[actual].empty <= MOST_EMPTY_LINES:
                        counts[actual].empty_lines += (line,)
                    continue
                counts[actual].pairs += 1
                for side, text in zip(SIDES, pair, strict=True):
                    files[actual, side].write(f"{text}\n")
                key = hashlib.blake2b("\t".join(pair).encode(), digest_size=8).digest()
                if split != "train":
                    held_out.setdefault(key, []).append(split)
                elif actual == "train":
                    for other in held_out.pop(key, ()):
                        counts[other].repeated += 1
        for split, count in counts.items():
            if count.pairs == 0:
                raise ValueError(
                    f"Expected pairs with two sentences for {split}. Received: {count.empty} pairs "
                    f"with a blank side and no others from {count.origin}. Check the file."
                )
    return {split: counts[split] for split in SPLITS}


def _open(
    path: Path, source: str | None, target: str | None
) -> dict[Split, tuple[str, Iterator[Pair]]]:
    """Returns the name and the pairs of each split that has files."""
    if path.is_dir():
        if source is None or target is None or source == target:
            raise ValueError(
                "Expected two suffixes of the files in a directory. Received: "
                f"source={source!r}, target={target!r}. Pass them, for example source='en', "
                "target='de' for train.en and train.de."
            )
        return {
            split: (" and ".join(file.name for file in files), _read_parallel(*files))
            for split, files in find_split_files(path, (source, target)).items()
        }
    if not path.exists():
        raise FileNotFoundError(
            "Expected a directory of parallel files, or a text file of pairs. Received: "
            f"path={str(path)!r}, which does not exist. Check the path."
        )
    if source is not None or target is not None:
        raise ValueError(
            "Expected no suffixes with a text file, whose first column is the source. Received: "
            f"source={source!r}, target={target!r}, path={str(path)!r}. Remove them."
        )
    return {"train": (path.name, _read_tab_separated(path))}


def _read_parallel(source: Path, target: Path) -> Iterator[Pair]:
    numbers = [0, 0]
    for pair in zip_longest(read_lines(source), read_lines(target)):
        numbers = [number + (text is not None) for number, text in zip(numbers, pair, strict=True)]
        yield (pair[0] or "").strip(), (pair[1] or "").strip()
    if numbers[0] != numbers[1]:
        raise ValueError(
            "Expected parallel files with equal numbers of lines. Received: "
            f"{str(source)!r} with {numbers[0]} and {str(target)!r} with {numbers[1]} lines. Check "
            "that both were made from the same sentences."
        )


def _read_tab_separated(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if not line.strip():
            columns = ["", ""]
        if len(columns) < 2:
            raise ValueError(
                f"Expected source and target, separated by a tab, in each line of {str(path)!r}. "
                f"Received: line {number}, {line[:60]!r}. Correct the line, or pass a directory "
                "of parallel files."
            )
        yield columns[0].strip(), columns[1].strip()


def _held_out_split(source: str, shares: dict[Split, float]) -> Split:
    """Returns the split of a training pair. It depends on the source sentence only."""
    place = int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big") / 2**64
    for split, share in shares.items():
        if place < share:
            return split
        place -= share
    return "train"
