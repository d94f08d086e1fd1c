class ConversionError(ValueError):
    """A checkpoint cannot be converted exactly. The message says why, and what to do."""
