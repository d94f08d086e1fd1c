class ExportError(Exception):
    """The exported model would not be what the Keras model is; no file was written."""
