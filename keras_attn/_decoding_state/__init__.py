"""Decoding state: growing buffers, key-value caches, the axis of beams."""
