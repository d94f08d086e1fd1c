"""Exported files as objects: the whole search, or its single steps."""
