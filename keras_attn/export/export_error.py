class ExportError(Exception):
    """Raised if an exported model would differ from the Keras model; no file is written."""
