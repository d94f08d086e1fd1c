"""Atomic file replacement, line reading, and path locks."""
