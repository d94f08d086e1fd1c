"""Files that are replaced atomically, read by line, or locked."""
