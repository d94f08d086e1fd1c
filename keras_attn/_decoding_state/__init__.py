"""Decoding state: growing buffers, key-value caches, and the beam axis."""
