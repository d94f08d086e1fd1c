"""Files that are replaced in one step, read by line, or locked."""
