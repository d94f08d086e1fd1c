"""Reads metadata from exported files without the engine that runs them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Settings, Side
from keras_attn_runtime._file_format.file_checksum import (
    load_unchanged,
    verify_file_checksum,
    verify_weights_checksum,
    weights_of,
)
from keras_attn_runtime._file_format.litert_container import LiteRTContainer, is_litert_file
from keras_attn_runtime._file_format.metadata_checksum import verify_checksum
from keras_attn_runtime._file_format.metadata_entries import FUNCTIONAL, read_entries
from keras_attn_runtime._file_format.settings_reader import SettingsReader
from keras_attn_runtime._file_format.vocabulary_side import read_side
from keras_attn_runtime._file_info.onnx_file import OnnxFile
from keras_attn_runtime._files.foreign_files import describe_foreign
from keras_attn_runtime._files.regular_file import map_file


def read_onnx_file(path: Path) -> OnnxFile:
    """Reads an ONNX file and compares it with its checksums.

    Args:
        path: file path.

    Returns:
        `OnnxFile`.

    Raises:
        OSError: if the file cannot be read.
        ModelFileError: if the file is not an ONNX file, or a checksum does not match.
    """

    def load() -> OnnxFile:
        verify_file_checksum(path)
        try:
            file = OnnxFile.from_bytes(map_file(path))
        except ModelFileError as error:
            received = describe_foreign(path) or f"a file of another format ({error})"
            raise ModelFileError(
                f"Expected an ONNX file. Received: {str(path)!r}, {received}"
            ) from error
        verify_checksum(file.metadata)
        verify_weights_checksum(path, file.metadata)
        return file

    return load_unchanged(load, path, weights_of(path))


def read_exported_file(path: Path) -> tuple[dict[str, str], dict[str, Side]]:
    """Reads the metadata from an ONNX or LiteRT file that keras-attn exported.

    Args:
        path: path of the file, or of an exported directory: with `model.onnx` and its weights, or
            with the graphs for a search in steps.

    Returns:
        Tuple with the metadata, a dict of strings, and a dict from "source" and "target" to the
        `Side`s that the file has.

    Raises:
        OSError: if the file does not exist or cannot be read.
        ModelFileError: if the file is damaged, was not exported by keras-attn, or has another
            format.
    """
    if is_litert_file(path):
        metadata = LiteRTContainer.from_path(path).metadata
        return metadata, _sides(metadata, ())
    if path.is_dir():
        graphs = [path / name for name in ("model.onnx", "start.onnx")]
        existing = [graph for graph in graphs if graph.is_file()]
        if not existing:
            received = describe_foreign(path) or "a directory without them."
            raise IsADirectoryError(
                "Expected a file, or a directory with model.onnx or start.onnx. Received: "
                f"{str(path)!r}, {received}"
            )
        path = existing[0]
    file = read_onnx_file(path)
    return file.metadata, _sides(file.metadata, [tensor.name for tensor in file.inputs])


def _sides(metadata: Mapping[str, str], input_names: Iterable[str]) -> dict[str, Side]:
    number, entries, _ = read_entries(metadata, input_names)
    if entries.get("kind") == FUNCTIONAL:
        root = SettingsReader("", entries)
        return {"source": read_side(root.part("source"), number)} if entries.get("source") else {}
    settings = Settings.from_metadata(metadata, input_names)
    sides = {"source": settings.source, "target": settings.target}
    return {name: side for name, side in sides.items() if side is not None}
