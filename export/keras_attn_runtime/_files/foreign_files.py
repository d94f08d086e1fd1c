"""Recognizes files of other formats, so that errors can name the format."""

import shlex
import zipfile
from os import PathLike
from pathlib import Path

_EXPORT = "Export the model: `keras-attn export onnx RUN model.onnx`."
_EXPORT_KERAS = (
    "Export it in Python: `keras_attn.export.export_onnx(keras.saving.load_model(PATH), "
    "'model.onnx')`."
)
_EXPORT_LITERT = "Export the model: `keras-attn export litert RUN model.tflite`."
_SEARCHLESS = ("decoder_model.onnx", "decoder_model_merged.onnx", "encoder_model.onnx")
"""Files of Optimum, whose search is a program in Python."""

_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a Keras model or its weights", _EXPORT),
    (b"GGUF", "a GGUF file", "Convert the checkpoint of transformers from which it was made."),
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
    if path.suffix == ".safetensors":
        is_checkpoint = (path.parent / "config.json").is_file()
        return "a file of weights", _convert(path.parent if is_checkpoint else None)
    if path.name in ("config.json", "run.json"):
        kind, advice = _identify_directory(path.parent)
        return (None, None) if kind is None or advice is None else (f"a file of {kind}", advice)
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
        return "the directory of a training run", _export_run(path)
    if any((path / name).is_file() for name in _SEARCHLESS):
        return "an export of Optimum, which has no search", _convert(None)
    if (path / "config.json").is_file() and (path / "model.bin").is_file():
        return "a model of CTranslate2", _EXPORT
    if (path / "config.json").is_file():
        return "a checkpoint folder of transformers", _convert(path)
    files = sorted(file.name for file in path.glob("*") if file.suffix in (".onnx", ".tflite"))
    if files:
        return f"a directory with {', '.join(files)}", f"Pass {str(path / files[0])!r}."
    if any(path.glob("*.index")):
        return "a folder of TensorFlow checkpoints", _convert(path)
    if (path / "model.keras").is_file():
        return "a directory with model.keras", _EXPORT_KERAS
    return None, None


def _export_run(path: Path) -> str:
    return f"Export it: `keras-attn export onnx {shlex.quote(str(path))} model.onnx`."


def _convert(folder: Path | None) -> str:
    """Returns the commands that convert and export a checkpoint folder, or `None` for its name."""
    name = "FOLDER" if folder is None else shlex.quote(str(folder))
    what = "the checkpoint folder of transformers" if folder is None else "it"
    return (
        f"Convert and export {what}: `keras-attn convert {name} RUN`, then `keras-attn export onnx "
        "RUN model.onnx`."
    )


def _identify_archive(path: Path) -> tuple[str, str] | tuple[None, None]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError):
        return None, None
    if "config.json" in names and "metadata.json" in names:
        is_run = (path.parent / "run.json").is_file()
        return "a Keras file", _export_run(path.parent) if is_run else _EXPORT_KERAS
    if any(name.endswith("data.pkl") for name in names):
        is_checkpoint = (path.parent / "config.json").is_file()
        return "a PyTorch file", _convert(path.parent if is_checkpoint else None)
    return "a zip archive", "Unpack it."
