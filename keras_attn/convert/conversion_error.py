class ConversionError(ValueError):
    """A checkpoint cannot be converted exactly. The message contains the reason and advice."""
