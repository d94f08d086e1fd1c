"""Checks of a model before its export, and of the file after it."""
