"""Checks of a model before its export, and of the exported file."""
