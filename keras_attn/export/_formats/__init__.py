"""The formats of exported files, one module for each format."""
