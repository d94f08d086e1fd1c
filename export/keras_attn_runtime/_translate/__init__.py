"""Translators: batches, prefixes, languages and results."""
