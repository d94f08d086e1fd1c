"""Recognizes files of other formats, so that errors can name the format."""

import zipfile
from os import PathLike
from pathlib import Path

_EXPORT = "Export the model: `keras-attn export onnx RUN model.onnx`."
_EXPORT_LITERT = "Export the model: `keras-attn export litert RUN model.tflite`."
_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a Keras model or its weights", _EXPORT),
    (b"version https://git-lfs", "a Git LFS pointer", "Download the file: `git lfs pull`."),
    (b"\x1f\x8b", "a gzip archive", "Unpack it."),
)


def describe_foreign(path: str | PathLike[str]) -> str | None:
    """Describes a file or directory that is not an ONNX file, and says what to do with it.

    Args:
        path: path of a file or directory.

    Returns:
        String such as "a Keras file. Export the model: ...", or `None` if the format is unknown.
    """
    kind, advice = identify_foreign(path)
    return None if kind is None else f"{kind}. {advice}"


def identify_foreign(path: str | PathLike[str]) -> tuple[str, str] | tuple[None, None]:
    """Recognizes a file or directory that is not an ONNX file.

    Args:
        path: path of a file or directory.

    Returns:
        Tuple of strings: the format, such as "a Keras file", and how to run or convert it. Both are
        `None` if the format is unknown.
    """
    path = Path(path)
    if path.is_dir():
        return _identify_directory(path)
    if path.name in ("saved_model.pb", "fingerprint.pb") and (path.parent / "variables").is_dir():
        return "a file of a TensorFlow SavedModel", _EXPORT
    with open(path, "rb") as file:
        beginning = file.read(64)
    for bytes_, name, advice in _BEGINNINGS:
        if beginning.startswith(bytes_):
            return name, advice
    if beginning[4:8] == b"TFL3":
        return "a TensorFlow Lite file", _EXPORT_LITERT
    if zipfile.is_zipfile(path):
        return _identify_archive(path)
    return None, None


def _identify_directory(path: Path) -> tuple[str, str] | tuple[None, None]:
    if (path / "saved_model.pb").is_file():
        return "a TensorFlow SavedModel", _EXPORT
    if (path / "start.onnx").is_file():
        return (
            "an export of `onnx-steps`",
            "Run it with StreamingTranslator.",
        )
    if (path / "run.json").is_file():
        return "the directory of a training run", _EXPORT
    return None, None


def _identify_archive(path: Path) -> tuple[str, str] | tuple[None, None]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError):
        return None, None
    if "config.json" in names and "metadata.json" in names:
        return "a Keras file", _EXPORT
    if any(name.endswith("data.pkl") for name in names):
        return "a PyTorch file", _EXPORT
    return "a zip archive", "Unpack it."
