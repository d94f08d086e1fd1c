import os


def disable_telemetry() -> None:
    """Prevents ONNX Runtime 1.30 and newer from writing to the user's home directory.

    On import, ONNX Runtime writes an id and a database of events there, unless the environment
    variable `ORT_DISABLE_TELEMETRY` is 1. This function sets the variable unless the user has set
    it. Call the function before each import of onnxruntime.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
