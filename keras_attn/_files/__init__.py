"""Atomic file replacement and path locks."""
