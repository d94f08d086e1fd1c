"""Functions that replace files atomically, read lines, and lock paths."""
