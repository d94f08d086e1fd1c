"""Recognizes files of other formats, so that an error can say what a path really is."""

import zipfile
from pathlib import Path

_EXPORT = "Export the model: `python -m keras_attn.export onnx RUN model.onnx`."
_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a Keras model or its weights", _EXPORT),
    (b"version https://git-lfs", "a Git LFS pointer", "Download the file: `git lfs pull`."),
    (b"\x1f\x8b", "a gzip archive", "Unpack it."),
)


def describe_foreign(path):
    """Says what a file or directory is that is no ONNX file, and what to do.

    Args:
        path: path of a file or directory.

    Returns:
        String such as "a Keras file. Export the model: ...", or `None` if it is not recognized.
    """
    path = Path(path)
    if path.is_dir():
        return _describe_directory(path)
    if path.name in ("saved_model.pb", "fingerprint.pb") and (path.parent / "variables").is_dir():
        return f"a file of a TensorFlow SavedModel. {_EXPORT}"
    with open(path, "rb") as file:
        beginning = file.read(64)
    for bytes_, name, advice in _BEGINNINGS:
        if beginning.startswith(bytes_):
            return f"{name}. {advice}"
    if beginning[4:8] == b"TFL3":
        return f"a TensorFlow Lite file. {_EXPORT}"
    if zipfile.is_zipfile(path):
        return _describe_archive(path)
    return None


def _describe_directory(path):
    if (path / "saved_model.pb").is_file():
        return f"a TensorFlow SavedModel. {_EXPORT}"
    if (path / "start.onnx").is_file():
        return "an export of `onnx-steps`. Its search has no loop: use StreamingTranslator."
    if (path / "run.json").is_file():
        return f"the directory of a training run. {_EXPORT}"
    return None


def _describe_archive(path):
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError):
        return None
    if "config.json" in names and "metadata.json" in names:
        return f"a Keras file. {_EXPORT}"
    if any(name.endswith("data.pkl") for name in names):
        return f"a PyTorch file. {_EXPORT}"
    return "a zip archive. Unpack it."
