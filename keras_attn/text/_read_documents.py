import hashlib
from os import PathLike
from pathlib import Path

from keras_attn._files.lines import read_lines


def read_documents(
    path: str | PathLike[str],
    valid_path: str | PathLike[str] | None = None,
    *,
    separated: bool = False,
) -> tuple[list[str], list[str]]:
    r"""Reads text for the training and the validation of a language model.

    Files are UTF-8, plain or `.gz`. A byte order mark is removed, and lines end with `\n`. All
    other characters are kept, because a language model learns them. With `separated=True`, blank
    lines divide the text into documents, and blank lines around a document are removed.

    Without a second file, a twentieth of the text is held out: its end, or with `separated=True` a
    random twentieth of the documents. It depends only on the text of a document, so equal documents
    stay together, and the same file is always split in the same way.

    Args:
        path: Path of the text file.
        valid_path: Path of the validation text. Defaults to `None`: a part of `path` is held out.
        separated: Bool, whether blank lines divide the files into documents. Defaults to `False`:
            each file is one document.

    Returns:
        Tuple of two lists of strings, the documents for training and those for validation.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is not UTF-8, contains no text, or contains fewer than two different
            documents and one of them must be held out.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.text import read_documents
    >>> path = Path(tempfile.mkdtemp()) / "tunes.abc"
    >>> _ = path.write_text("X:1\nabc\n\nX:2\ndef\n\n\nX:3\ngab\n", encoding="utf-8")
    >>> training, validation = read_documents(path, separated=True)
    >>> sorted(training + validation)
    ['X:1\nabc', 'X:2\ndef', 'X:3\ngab']
    >>> len(validation)
    1
    """
    training = _read(path, separated)
    if valid_path is not None:
        return training, _read(valid_path, separated)
    if not separated:
        (text,) = training
        end = len(text) * 19 // 20
        training, validation = [text[:end]], [text[end:]]
    else:
        places = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in training]
        last = sorted(places)[max(1, len(places) // 20) - 1]
        pairs = list(zip(places, training, strict=True))
        validation = [text for place, text in pairs if place <= last]
        training = [text for place, text in pairs if place > last]
    if not all(training) or not training:
        raise ValueError(
            f"Expected at least two {'documents' if separated else 'characters'}, because one is "
            f"held out. Received: {len(validation)} in {str(path)!r}. "
            f"{'Separate the documents by blank lines, or p' if separated else 'P'}ass a file for "
            "validation."
        )
    return training, validation


def _read(path: str | PathLike[str], separated: bool) -> list[str]:
    lines = list(read_lines(Path(path)))
    if not any(line.strip() for line in lines):
        raise ValueError(
            f"Expected text. Received: {str(path)!r}, without any visible character. Check the "
            "file."
        )
    if not separated:
        return ["\n".join(lines)]
    documents: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    return ["\n".join(document) for document in documents if document]
