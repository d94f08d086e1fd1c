import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import keras

from keras_attn.export._export_error import ExportError
from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._passes.weights_size import LIMIT

if TYPE_CHECKING:
    import onnx

MODEL, WEIGHTS = "model.onnx", "model.weights"
"""Names of the two files of an ONNX model with external weights."""

_SMALL = 1024  # smaller tensors, such as shapes, remain in the ONNX file
_PAGE = 4096  # ONNX Runtime can map a weight without a copy if its offset is a multiple of this


def variables_size(weights: Iterable[keras.Variable]) -> int:
    """Returns the size of a list of `keras.Variable` in bytes."""
    return sum(weight.numpy().nbytes for weight in weights)


def require_one_file(weights: Sequence[keras.Variable]) -> None:
    """Raises an error for weights that do not fit in one ONNX file.

    The exporters call this function before they convert a model, because a conversion takes long.

    Args:
        weights: List of `keras.Variable`.

    Raises:
        ExportError: If the weights have more than `LIMIT` bytes.
    """
    if variables_size(weights) > LIMIT:
        raise ExportError(
            f"Expected weights of at most {LIMIT:,} bytes, the maximum for one ONNX file. "
            f"Received: {variables_size(weights):,} bytes. Use `export_onnx`, which writes large "
            "models to a directory."
        )


def write_weights(model: "onnx.ModelProto", directory: Path) -> None:
    """Moves the weights of a model into a separate file.

    Args:
        model: `onnx.ModelProto`; changed in place. Its tensors refer to the file, and its metadata
            contains the checksum of the file.
        directory: Path of the directory for the file `WEIGHTS`.
    """
    from onnx.external_data_helper import set_external_data

    checksum, offset = hashlib.sha256(), 0
    with open(directory / WEIGHTS, "wb") as file:
        for tensor in _tensors(model):
            content = tensor.raw_data
            if len(content) < _SMALL:
                continue
            set_external_data(tensor, WEIGHTS, offset, len(content))
            tensor.ClearField("raw_data")
            content += bytes(-len(content) % _PAGE)
            checksum.update(content)
            offset += file.write(content)
    entry = {"key": "keras_attn.weights_checksum", "value": checksum.hexdigest()}
    model.metadata_props.add(**entry)


def _tensors(model: "onnx.ModelProto") -> "list[onnx.TensorProto]":
    return [tensor for graph in nested_graphs(model.graph) for tensor in graph.initializer]
