import os


def disable_telemetry() -> None:
    """Prevents ONNX Runtime 1.30 and newer from writing to the user's home directory.

    On import, it writes an id and a database of events there, unless the environment variable
    `ORT_DISABLE_TELEMETRY` is 1. A value that the user has set is unchanged. Call this function
    before each import of onnxruntime.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
