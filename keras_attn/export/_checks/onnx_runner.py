from os import PathLike

import numpy as np

from keras_attn.export._export_error import ExportError
from keras_attn.export._require import disable_telemetry
from keras_attn.export._types import Arrays, Run


def open_session(path: str | PathLike[str]) -> Run:
    """Opens a file in ONNX Runtime on the CPU.

    Args:
        path: Path of an ONNX file.

    Returns:
        Function that runs the file. It takes NumPy arrays as keyword arguments and returns a dict
        of NumPy arrays.

    Raises:
        ExportError: If ONNX Runtime cannot load the file. The returned function also raises an
            `ExportError` if ONNX Runtime cannot run the file.
    """
    disable_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # exceptions of ONNX Runtime have no public base class
        raise ExportError(f"ONNX Runtime refuses the converted model: {error}") from error
    names = [output.name for output in session.get_outputs()]

    def run(**inputs: np.ndarray) -> Arrays:
        try:
            outputs = session.run(names, inputs)
        except Exception as error:
            raise ExportError(f"ONNX Runtime cannot run the converted model: {error}") from error
        return dict(zip(names, outputs, strict=True))

    return run
