"""Files and directories, whatever they contain: atomic writes, temporary directories, kinds."""
