"""Files and directories with any content: atomic writes, temporary directories, kinds."""
