import hashlib
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TypeVar

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.regular_file import require_regular_file

WEIGHTS_KEY = "keras_attn.weights_checksum"
KEY = "keras_attn.file_checksum"
# The entry as protobuf writes it at the end of the file: field 14 of the model, `metadata_props`,
# of 92 bytes, with the key of 24 bytes in its field 1 and the value of 64 bytes in its field 2.
ENTRY = b"\x72\x5c\x0a\x18" + KEY.encode() + b"\x12\x40"
CHECKSUM_LENGTH = 64
_ATTEMPTS = 5  # loads of files that are replaced meanwhile

T = TypeVar("T")


def verify_file_checksum(path: str | PathLike[str]) -> None:
    """Refuses a file that changed since the export, before anything else reads it.

    With one bit of a weight flipped, a model still loads and translates, only worse.

    Args:
        path: string or path of the ONNX file. `keras_attn.file_checksum`, where it is the last of
            the file's `metadata_props` and the end of the file, is the SHA-256, in hexadecimal, of
            all bytes before this entry.

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
    """Refuses weights that changed since the export, or belong to another model.

    Args:
        path: string or path of the ONNX file; the weights are in the same directory.
        metadata: dict of strings, its `metadata_props`. `keras_attn.weights_checksum`, where it has
            one, is the SHA-256, in hexadecimal, of the file `model.weights`.

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
    """Loads files, and loads them again if another process replaces them meanwhile.

    A deployment replaces files at any time. Then the loaded file could differ from the verified
    one, and the files of two exports could be mixed.

    Args:
        load: function without arguments that reads the files.
        *paths: paths of the files, also of those that may not exist.

    Returns:
        The result of `load`.

    Raises:
        ModelFileError: the files were replaced each time, or one is a pipe, a socket or a device.
        Exception: of `load`, for files that do not change.
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
    """Returns the path of the weights of an ONNX file, if they are in a file of their own."""
    return Path(path).with_name("model.weights")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Returns numbers that differ once a file is replaced; `None` if there is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    # The time of the last change of its entry too: copies may keep the other one.
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times


def _sha256(file: BinaryIO, size: int) -> str:
    """Returns the checksum, in hexadecimal, of the next `size` bytes of a file."""
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
