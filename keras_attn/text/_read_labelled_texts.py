import csv
import dataclasses
import hashlib
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from keras_attn._files.lines import read_lines
from keras_attn.text._generated_dates import SPLITS, Split
from keras_attn.text._split_files import STEMS, count_held_out, find_split_files
from keras_attn_checks.message import Argument, Message

_TABLES = ("tsv", "csv")
_MOST_LABELS = 20
"""Number of labels from which they are compared with the number of texts."""


@dataclasses.dataclass
class LabelledTexts:
    """Labelled texts for one split, returned by `read_labelled_texts`.

    Args:
        texts: List of strings. Defaults to `[]`.
        labels: List of strings, one label per text. Defaults to `[]`.
        empty: Int, number of lines left out because the text or the label is blank. Defaults to
            `0`.
        repeated: Int, number of texts that are also in the training data. They are not removed.
            Always 0 for the training data. Defaults to `0`.
        origin: String, the files from which the texts were read. Defaults to `""`.

    Example:

    >>> from keras_attn.text import LabelledTexts
    >>> LabelledTexts(["a fine film"], ["pos"], origin="train.tsv")
    LabelledTexts(texts=['a fine film'], labels=['pos'], empty=0, repeated=0, origin='train.tsv')
    """

    texts: list[str] = dataclasses.field(default_factory=list)
    labels: list[str] = dataclasses.field(default_factory=list)
    empty: int = 0
    repeated: int = 0
    origin: str = ""


def read_labelled_texts(
    path: str | PathLike[str], label_column: str = "label", text_column: str = "text"
) -> dict[Split, LabelledTexts]:
    r"""Reads labelled texts to train, validate and test a classifier.

    `path` is one of:

    - A table, plain or `.gz`, with a label and a text in each line. In a file `.csv`, commas
      separate the columns, and cells with commas or line breaks are quoted. In any other file, tabs
      separate them, and quotes have no meaning. If the first line is a header with the names
      `label_column` and `text_column`, these columns are read. Without a header, the first column
      is the label, and the second one is the text. Further columns are ignored.
    - A directory with tables: `train.tsv`, `valid.tsv` (or `val` or `dev`) and `test.tsv` (or a
      name that begins with `test`), or the same with `.csv`.
    - A directory with text files `train.LABEL`, one for each label, such as `train.pos` and
      `train.neg`, with a text in each line, and the same for validation and test.

    If there are no files for validation or test, a twentieth of the training texts, at most 1,000,
    is used for each, with equal shares for all labels. Equal texts stay in the same split, texts
    with several labels stay in the training data, and the same files are always split in the same
    way.

    All files are UTF-8. Spaces around a text or label and a byte order mark are removed. Line
    breaks within a cell become spaces. Lines with a blank text or label are left out and counted.
    All other texts keep their order.

    Args:
        path: Table or directory path.
        label_column: String, label header, in any case. Defaults to `"label"`.
        text_column: String, text header, in any case. Defaults to `"text"`.

    Returns:
        Dict from `"train"`, `"valid"` and `"test"` to `LabelledTexts`.

    Raises:
        FileNotFoundError: If `path` or the training files do not exist, or a training label has
            no file in another split.
        ValueError: If a file is not UTF-8, contains no text or lacks a column; if there are fewer
            than two labels, or more than 20 and more than half as many as texts; or if a label for
            validation or test is not in the training data.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.text import read_labelled_texts
    >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> rows = [f'"film {number}: good, fun",good\nfilm {number}: dull,bad' for number in range(50)]
    >>> _ = path.write_text("\n".join(["text,label", *rows]))
    >>> splits = read_labelled_texts(path)
    >>> {split: len(each.texts) for split, each in splits.items()}
    {'train': 92, 'valid': 4, 'test': 4}
    >>> splits["train"].labels[:2]
    ['good', 'bad']
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            "Expected a table with a label and a text in each line, or a directory. Received: "
            f"path={str(path)!r}, which does not exist. Check the path."
        )
    files: dict[Split, tuple[Path, ...]] = (
        _find_files(path) if path.is_dir() else {"train": (path,)}
    )
    is_table = not path.is_dir() or len(files["train"]) == 1
    splits: dict[Split, LabelledTexts] = {}
    for split, several in files.items():
        splits[split] = LabelledTexts(origin=" and ".join(file.name for file in several))
        for file in several:
            rows = _read_table(file, label_column, text_column) if is_table else _read_file(file)
            _add_rows(splits[split], file, rows)
    _check_labels(splits, path)
    missing = [split for split in SPLITS if split not in splits]
    if missing:
        splits |= _hold_out(splits["train"], missing)
    known = set(splits["train"].texts)
    for split in ("valid", "test"):
        splits[split].repeated = sum(text in known for text in splits[split].texts)
    return {split: splits[split] for split in SPLITS}


def _find_files(directory: Path) -> dict[Split, tuple[Path, ...]]:
    names = [file.name.removesuffix(".gz") for file in sorted(directory.iterdir())]
    names = [name for name in names if not name.endswith("~")]  # backups of editors
    tables = [suffix for suffix in _TABLES if f"train.{suffix}" in names]
    if len(tables) > 1:
        raise ValueError(
            f"Expected one training file in {str(directory)!r}. Received: train.tsv and train.csv. "
            "Remove one of them."
        )
    if tables:
        return find_split_files(directory, tables)
    labels = {
        stem: [name.removeprefix(f"{stem}.") for name in names if name.startswith(f"{stem}.")]
        for stem in (*STEMS["train"], *STEMS["valid"], "test")
    }
    if len(set(labels["train"])) < 2:
        raise FileNotFoundError(
            "Expected train.tsv, train.csv, or a file train.LABEL for each of at least two labels, "
            f"plain or .gz, in {str(directory)!r}. Received: {names[:10]}. Rename your files."
        )
    for stem, found in labels.items():
        for label in found:
            if label not in labels["train"]:
                raise ValueError(
                    f"Expected the labels of the training data, {labels['train'][:10]}. Received: "
                    f"{str(directory / f'{stem}.{label}')!r}. Add train.{label}, or remove the "
                    "file."
                )
    return find_split_files(directory, sorted(set(labels["train"])))


def _read_file(file: Path) -> Iterator[tuple[str, str]]:
    """Yields the lines of a file such as train.pos.gz with their label."""
    label = file.name.removesuffix(".gz").rpartition(".")[2]
    return ((label, line.strip()) for line in read_lines(file))


def _read_table(file: Path, label_column: str, text_column: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs of label and text of a table."""
    columns = None
    for number, cells in _rows(file):
        if columns is None and any(cells):
            columns, is_header = _find_columns(file, cells, label_column, text_column)
            if is_header:
                continue
        if columns is None or not any(cells):
            yield "", ""
        elif len(cells) <= max(columns):
            raise ValueError(
                f"Expected at least {max(columns) + 1} columns, separated by "
                f"{'commas' if _is_csv(file) else 'tabs'}, in each line of {str(file)!r}. "
                f"Received: line {number}, {cells[0][:60]!r}. Correct the line."
            )
        else:
            yield cells[columns[0]], cells[columns[1]]


def _is_csv(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(".csv")


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the line numbers and the stripped cells of a table."""
    if not _is_csv(file):
        for number, line in enumerate(read_lines(file), start=1):
            yield number, [cell.strip() for cell in line.split("\t")]
        return
    reader = csv.reader((f"{line}\n" for line in read_lines(file)), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, [re.sub(r"[\r\n]+", " ", cell).strip() for cell in cells]
    except csv.Error as error:
        raise ValueError(
            f"Expected a CSV file. Received: {str(file)!r}, line {reader.line_num}: {error}. Quote "
            "cells that contain quotes, or write a .tsv file."
        ) from error


def _find_columns(file, cells, label_column, text_column):
    """Returns the indices of label and text, and whether the first line is a header."""
    names = [cell.lower() for cell in cells]
    wanted = [label_column.lower(), text_column.lower()]
    found = [name for name in wanted if name in names]
    if len(found) == 2:
        return [names.index(name) for name in wanted], True
    if found or wanted != ["label", "text"]:
        raise ValueError(
            Message(
                f"Expected a header with the columns {label_column!r} and {text_column!r}. "
                f"Received: {str(file)!r}, whose first line is {cells[:10]}. Pass the names of the "
                "columns as ",
                Argument("label_column"),
                " and ",
                Argument("text_column"),
                ".",
            )
        )
    return [0, 1], False


def _add_rows(split: LabelledTexts, file: Path, rows: Iterator[tuple[str, str]]) -> None:
    before = len(split.texts)
    for label, text in rows:
        if label and text:
            split.labels.append(label)
            split.texts.append(text)
        else:
            split.empty += 1
    if len(split.texts) == before:
        raise ValueError(
            f"Expected labelled texts. Received: {str(file)!r}, without any. Check the file."
        )


def _check_labels(splits: dict[Split, LabelledTexts], path: Path) -> None:
    train = splits["train"]
    labels = sorted(set(train.labels))
    if len(labels) < 2:
        raise ValueError(
            f"Expected at least two labels. Received: only {labels[0][:60]!r} in {train.origin} of "
            f"{str(path)!r}. Check the files, or the column of the labels."
        )
    if len(labels) > max(_MOST_LABELS, len(train.texts) / 2):
        raise ValueError(
            f"Expected several texts for each label. Received: {len(labels)} labels of "
            f"{len(train.texts)} texts in {train.origin}, such as {labels[0][:60]!r}. Exchange the "
            "columns, so that the label comes first, or add a header with the columns label and "
            "text."
        )
    for each in splits.values():
        unknown = sorted(set(each.labels) - set(labels))
        if unknown:
            raise ValueError(
                f"Expected the labels of the training data, {labels[:10]}. Received: "
                f"{unknown[:10]} in {each.origin} of {str(path)!r}. Correct the labels, or add "
                "such texts to the training data."
            )


def _hold_out(train: LabelledTexts, missing: list[Split]) -> dict[Split, LabelledTexts]:
    """Moves training texts to the missing splits. The choice depends on the texts only."""
    share = count_held_out(len(train.texts)) / len(train.texts)
    labels_of: dict[str, set[str]] = {}
    for text, label in zip(train.texts, train.labels, strict=True):
        labels_of.setdefault(text, set()).add(label)
    groups: dict[str, list[str]] = {}
    for text, labels in labels_of.items():
        if len(labels) == 1:  # a text with several labels does not show whether a model is right
            groups.setdefault(labels.pop(), []).append(text)
    split_of: dict[str, Split] = {}
    for texts in groups.values():
        texts.sort(key=lambda text: hashlib.blake2b(text.encode(), digest_size=8).digest())
        # A label with too few texts has none in the other splits.
        count = max(1, round(share * len(texts))) if len(texts) > len(missing) else 0
        for index, split in enumerate(missing):
            split_of |= dict.fromkeys(texts[index * count : (index + 1) * count], split)
    splits: dict[Split, LabelledTexts] = {
        split: LabelledTexts(origin=f"a part of {train.origin}") for split in missing
    }
    if not split_of:
        raise ValueError(
            f"Expected more than {len(missing)} different texts of a label, because "
            f"{' and '.join(missing)} are held out. Received: {len(train.texts)} texts in "
            f"{train.origin}. Add texts, or files for {' and '.join(missing)}."
        )
    rows = list(zip(train.texts, train.labels, strict=True))
    train.texts, train.labels = [], []
    for text, label in rows:
        part = splits[split_of[text]] if text in split_of else train
        part.texts.append(text)
        part.labels.append(label)
    return splits
