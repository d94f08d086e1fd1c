"""Tokenizers, which convert texts to ids and ids to texts."""
