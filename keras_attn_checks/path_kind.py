import zipfile
from pathlib import Path

CONFIG = "config.json"
"""Name of a file that each checkpoint folder of transformers contains."""

RUN = "run.json"
"""Name of a file that each run directory contains."""

_ENDINGS = {
    ".bin": "a file of PyTorch weights",
    ".ckpt": "a file of PyTorch weights",
    ".gguf": "a GGUF file",
    ".h5": "an HDF5 file",
    ".onnx": "an ONNX file",
    ".pt": "a file of PyTorch weights",
    ".pth": "a file of PyTorch weights",
    ".safetensors": "a file of weights",
    ".tflite": "a LiteRT file",
    ".zip": "a zip archive",
}


def describe_path(path: Path) -> str:
    """Returns a description of an existing path for errors, such as `"a TensorFlow SavedModel"`."""
    if path.is_dir():
        return _describe_directory(path)
    if path.suffix == ".keras" and zipfile.is_zipfile(path):
        return "a Keras file"
    return _ENDINGS.get(path.suffix, "a file")


def _describe_directory(path):
    if (path / RUN).is_file():
        return "a run directory"
    if (path / CONFIG).is_file():
        return "a checkpoint of transformers"
    if (path / "saved_model.pb").is_file():
        return "a TensorFlow SavedModel"
    if any(path.glob("*.onnx")):
        return "a directory of ONNX files"
    return "a directory"
