import os


def disable_telemetry() -> None:
    """Keeps ONNX Runtime 1.30 and newer from writing into the user's home.

    When it is imported, it writes an id and a database of events there, unless the environment
    variable `ORT_DISABLE_TELEMETRY` is 1. A value that the user has set stays. Call it before each
    import of onnxruntime.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
