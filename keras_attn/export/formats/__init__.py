"""The formats of exported files, one in each module."""
