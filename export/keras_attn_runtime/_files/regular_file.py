import mmap
import os
import stat
from os import PathLike

from keras_attn_runtime._errors import ModelFileError

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def require_regular_file(path: str | PathLike[str]) -> None:
    """Raises an error for a path that cannot be opened as a model.

    ONNX Runtime cannot open a path that is not valid UTF-8. Opening a pipe, socket or device could
    block forever.

    Args:
        path: string or path. A missing file and a directory are accepted.

    Raises:
        ModelFileError: if the path is a pipe, a socket or a device, or is not valid UTF-8.
    """
    try:
        os.fsdecode(path).encode()
    except UnicodeEncodeError as error:
        raise ModelFileError(
            "Expected a path of valid UTF-8, as ONNX Runtime requires. Received: "
            f"{ascii(os.fsdecode(path))}. Rename the file or the directory."
        ) from error
    try:
        kind = KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except OSError:
        return
    if kind is not None:
        raise ModelFileError(
            f"Expected a regular file, because a model is read more than once. Received: "
            f"{str(path)!r}, {kind}. Copy its content to a file."
        )


def map_file(path: str | PathLike[str]) -> memoryview:
    """Maps a file into memory; only the accessed parts are read.

    Raises:
        OSError: if the file cannot be opened.
        ModelFileError: if the path is a pipe, a socket or a device.
    """
    require_regular_file(path)
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            return memoryview(b"")  # an empty file cannot be mapped
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
