"""Atomic exchange of two paths, if the operating system supports it."""

import ctypes
import errno
import functools
import os
import sys
from os import PathLike

_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV, errno.EPERM}
"""Errors for an unsupported exchange: by the kernel, a sandbox or the file system (NFS, FAT), or by
overlayfs for directories in a lower layer, as in a container image.
"""


def exchange_paths(first: str | PathLike[str], second: str | PathLike[str]) -> bool:
    """Exchanges two files or directories on the same file system atomically.

    Both paths exist at all times, with the old or the new content. Symbolic links are exchanged
    themselves, not their targets.

    Args:
        first: Existing path.
        second: Existing path.

    Returns:
        Bool. `False` if the operating system or the file system does not support the exchange. In
        this case nothing has changed.

    Raises:
        OSError: If the exchange failed, for example because a path does not exist.
    """
    exchange = _system_call()
    if exchange is None:
        return False
    if exchange(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


@functools.cache
def _system_call():
    """Returns the C library function that exchanges two paths, or `None`."""
    path, flags = ctypes.c_char_p, ctypes.c_uint
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            renamex = library.renamex_np
            renamex.argtypes = [path, path, flags]
            return functools.partial(_call_darwin, renamex)
        renameat2 = library.renameat2
    except (AttributeError, OSError, TypeError):  # Windows or an old C library
        return None
    renameat2.argtypes = [ctypes.c_int, path, ctypes.c_int, path, flags]
    return functools.partial(_call_linux, renameat2)


def _call_linux(renameat2, first, second):
    current_directory, rename_exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return renameat2(current_directory, first, current_directory, second, rename_exchange)


def _call_darwin(renamex, first, second):
    rename_swap = 2  # RENAME_SWAP
    return renamex(first, second, rename_swap)
