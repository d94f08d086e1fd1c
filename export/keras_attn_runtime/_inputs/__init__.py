"""Checks a call's inputs, and converts them to batch rows: texts, ids, arrays, images."""
