"""Functions that read text files, and that write files safely if several processes use them.

- `read_lines` reads a plain or compressed UTF-8 text file line by line.
- `write_lines` writes a UTF-8 text file.
- `atomic_replace` replaces a file or directory when its new content is complete.
- `PathLock` prevents two processes from writing to the same directory.
- `separate_paths_problem` checks that a program does not write to its inputs.
"""

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.lines import read_lines, write_lines
from keras_attn._files.path_lock import PathLock
from keras_attn_checks.separate_paths import separate_paths_problem

__all__ = ["PathLock", "atomic_replace", "read_lines", "separate_paths_problem", "write_lines"]
