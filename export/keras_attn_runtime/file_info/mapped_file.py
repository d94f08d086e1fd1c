import mmap
from os import PathLike

from keras_attn_runtime.files.regular_file import require_regular_file


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
