"""Checks inputs of a call, and converts them to rows of a batch: texts, ids, arrays, images."""
