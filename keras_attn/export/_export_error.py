class ExportError(RuntimeError):
    """Raised if a model cannot be exported correctly; no file is written."""
