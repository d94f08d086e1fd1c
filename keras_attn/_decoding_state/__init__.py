"""What changes while tokens are decoded: growing buffers, keys and values, beams."""
