"""Reading text files, and writing files that other processes read or write.

- `read_lines` reads a UTF-8 text file, perhaps compressed, line by line.
- `atomic_replace` replaces a file or directory only when its new content is complete.
- `PathLock` keeps two processes from writing the same directory.
"""

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.lines import read_lines
from keras_attn._files.path_lock import PathLock

__all__ = ["PathLock", "atomic_replace", "read_lines"]
