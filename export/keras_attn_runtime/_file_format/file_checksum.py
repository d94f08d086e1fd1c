import hashlib
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TypeVar

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._files.regular_file import require_regular_file

WEIGHTS_KEY = "keras_attn.weights_checksum"
KEY = "keras_attn.file_checksum"
# The metadata entry at the end of the file in protobuf encoding: field 14 of the model
# (`metadata_props`, 92 bytes) contains field 1 (the key, 24 bytes) and field 2 (the value, 64
# bytes).
ENTRY = b"\x72\x5c\x0a\x18" + KEY.encode() + b"\x12\x40"
CHECKSUM_LENGTH = 64
_ATTEMPTS = 5  # attempts to load files that are replaced while they are loaded

T = TypeVar("T")


def verify_file_checksum(path: str | PathLike[str]) -> None:
    """Raises an error if the file changed since the export.

    Without this check, a model with a flipped bit in a weight would load and translate badly.

    Args:
        path: string or path, the ONNX file. If it ends with the `metadata_props` entry
            `keras_attn.file_checksum`, the value is the hexadecimal SHA-256 of all bytes before the
            entry. A file without this entry at its end is not checked.

    Raises:
        OSError: if the file cannot be read.
        ModelFileError: if the checksum does not match.
    """
    with open(path, "rb") as file:
        rest = file.seek(0, 2) - len(ENTRY) - CHECKSUM_LENGTH
        if rest < 0:
            return
        file.seek(rest)
        if file.read(len(ENTRY)) != ENTRY:
            return
        expected = file.read()
        file.seek(0)
        received = _sha256(file, rest)
    _compare("a file", KEY, expected.decode(errors="replace"), received)


def verify_weights_checksum(path: str | PathLike[str], metadata: Mapping[str, str]) -> None:
    """Raises an error if the weights changed since the export or belong to a different model.

    Args:
        path: string or path, the ONNX file; the weights are in the same directory.
        metadata: dict of strings, the ONNX file's `metadata_props`. The optional entry
            `keras_attn.weights_checksum` is the hexadecimal SHA-256 of `model.weights`.

    Raises:
        OSError: if the file cannot be read.
        ModelFileError: if the checksum does not match.
    """
    if WEIGHTS_KEY in metadata:
        weights = weights_of(path)
        with open(weights, "rb") as file:
            received = _sha256(file, weights.stat().st_size)
        _compare("weights", WEIGHTS_KEY, metadata[WEIGHTS_KEY], received)


def load_unchanged(load: Callable[[], T], *paths: Path) -> T:
    """Loads files, and loads them again if another process replaces them during loading.

    Otherwise the loaded file could differ from the verified one, or files from two exports could be
    mixed.

    Args:
        load: function `()` that reads the files.
        *paths: file paths. A file may be missing.

    Returns:
        The result from `load`.

    Raises:
        ModelFileError: if files were replaced in each attempt, or a path is a pipe, a socket or a
            device.
        Exception: the exception from `load`, if the files did not change.
    """
    for path in paths:
        require_regular_file(path)
    for _ in range(_ATTEMPTS):
        before = [_identity(path) for path in paths]
        try:
            result = load()
        except Exception:
            if before == [_identity(path) for path in paths]:
                raise
        else:
            if before == [_identity(path) for path in paths]:
                return result
    path = next((path for path in paths if path.exists()), paths[0])
    raise ModelFileError(
        f"Expected a file that stays the same while it is loaded. Received: path={str(path)!r}, "
        f"which was replaced or written {_ATTEMPTS} times meanwhile. Load it again."
    )


def weights_of(path: str | PathLike[str]) -> Path:
    """Returns the path of an ONNX file's external weights, which may be missing."""
    return Path(path).with_name("model.weights")


def model_files(path: str | PathLike[str]) -> list[Path]:
    """Returns the paths of all files that can belong to a model. Some may be missing.

    Args:
        path: string or path, the file, or the exported directory.
    """
    path = Path(path)
    names = ("model.onnx", "model.weights", "start.onnx", "step.onnx", "finish.onnx")
    directory = path if path.is_dir() else path.parent
    return [path, *(directory / name for name in names)]


def _identity(path: Path) -> tuple[int, ...] | None:
    """Returns numbers that change when a file is replaced, or `None` if the file is missing."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    # A copy may keep the modification time (mtime), but not the inode change time (ctime).
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times


def _sha256(file: BinaryIO, size: int) -> str:
    """Returns the hexadecimal checksum of a file's next `size` bytes."""
    checksum = hashlib.sha256()
    while size > 0:
        content = file.read(min(size, 2**20))
        if not content:  # the file has become shorter
            break
        checksum.update(content)
        size -= len(content)
    return checksum.hexdigest()


def _compare(what: str, key: str, expected: str, received: str) -> None:
    if received != expected:
        raise ModelFileError(
            f"Expected {what} with the checksum {expected!r}. Received: {received!r}. The file is "
            "damaged, or was changed after the export; export or copy it again. If it was changed "
            f"on purpose, remove {key!r} from its metadata."
        )
