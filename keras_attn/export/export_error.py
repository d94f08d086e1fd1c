class ExportError(Exception):
    """Raised if a model cannot be exported correctly; no file is written."""
