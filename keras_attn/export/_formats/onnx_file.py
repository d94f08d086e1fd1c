import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import keras

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export._checks.onnx_operator_check import check_model
from keras_attn.export._checks.onnx_runner import open_session
from keras_attn.export._formats.external_data import (
    MODEL,
    variables_size,
    write_weights,
)
from keras_attn.export._passes import lower_constants
from keras_attn.export._passes.weights_size import LIMIT, weights_size
from keras_attn.export._require import require_utf8
from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export._types import Metadata, Run
from keras_attn_checks.output_path import ONNX_BEGINNING

if TYPE_CHECKING:
    import onnx

CHECKSUM = "keras_attn.file_checksum"


class OnnxFile:
    """An ONNX file under construction, see `new_onnx_file`.

    Args:
        path: Path of the file, or of the directory.
        others: Path of a temporary directory for models that are only compared and not exported,
            see `write_other`.
        external_data: Bool, whether to write a directory with external weights, see
            `write_weights`.
    """

    def __init__(self, path: Path, others: str, external_data: bool) -> None:
        self._path = path
        self._others = others
        self._external_data = external_data

    def write(self, model: "onnx.ModelProto") -> Run:
        """Writes and checks the model.

        Args:
            model: `onnx.ModelProto`; changed in place by `lower_constants`.

        Returns:
            Function that runs the model. It takes arrays as keyword arguments and returns a dict of
            arrays. It opens the file when it is first called. If the caller deletes the model
            before this call, the memory does not contain its weights twice.

        Raises:
            ExportError: If a check of the model fails.
        """
        return write_model(model, self._path, self._external_data)

    def add_metadata(self, entries: Metadata) -> None:
        """Adds entries to the metadata of the file that `write` wrote.

        Args:
            entries: Dict of strings.
        """
        add_metadata(self._path / MODEL if self._path.is_dir() else self._path, entries)

    def write_other(self, model: "onnx.ModelProto") -> Run:
        """Writes and checks a model that is only compared, in a temporary file; see `write`."""
        path = Path(tempfile.mkdtemp(dir=self._others)) / "model"
        return write_model(model, path, self._external_data)


@contextlib.contextmanager
def new_onnx_file(
    path: str | PathLike[str], weights: Iterable[keras.Variable], external_data: bool = False
) -> Iterator[OnnxFile]:
    """Context manager that writes a new ONNX file.

    The file gets its final name at the end of the block, unless the block raises an error. If the
    path cannot be written, an error is raised at the start of the block.

    Args:
        path: Path of the file, or of the directory.
        weights: List of `keras.Variable`. If the weights have more than 2 GB, a directory is
            written.
        external_data: Bool, whether to write a directory for weights of any size.

    Yields:
        An `OnnxFile`.

    Raises:
        ValueError: If the path is not valid UTF-8.
    """
    require_utf8(path)
    is_file = not external_data and variables_size(weights) <= LIMIT
    with (
        atomic_replace(path, is_file, ONNX_BEGINNING) as partial,
        tempfile.TemporaryDirectory(prefix=".partial-", dir=partial.parent) as others,
        pause_garbage_collection(),
    ):
        yield OnnxFile(partial, others, not is_file)


def write_model(model: "onnx.ModelProto", path: Path, external_data: bool = False) -> Run:
    """Writes and checks a model, and returns a function that runs it; see `OnnxFile.write`."""
    lower_constants(model)
    if external_data or weights_size(model) > LIMIT:
        path.mkdir()
        write_weights(model, path)
        path = path / MODEL
    _save(model, path)
    check_model(model, path)
    session = functools.cache(lambda: open_session(path))
    return lambda **inputs: session()(**inputs)


def _save(model: "onnx.ModelProto", path: Path) -> None:
    """Writes the file and appends a checksum of its content, which the runtime verifies."""
    content = model.SerializeToString()
    with open(path, "wb") as file:
        file.write(content)
        file.write(_serialize_metadata({CHECKSUM: hashlib.sha256(content).hexdigest()}))


def add_metadata(path: str | PathLike[str], entries: Metadata) -> None:
    """Adds entries to the metadata of a file from `write_model`, and updates the checksum.

    Args:
        path: Path of the file.
        entries: Dict of strings, with new keys.
    """
    with open(path, "rb+") as file:
        file.seek(-len(_serialize_metadata({CHECKSUM: "0" * 64})), os.SEEK_END)
        file.truncate()
        file.write(_serialize_metadata(entries))
        file.seek(0)
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(_serialize_metadata({CHECKSUM: checksum}))


def _serialize_metadata(entries: Metadata) -> bytes:
    """Returns bytes that add metadata to an ONNX file: protobuf merges consecutive messages."""
    import onnx

    model = onnx.ModelProto()
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()
