import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_attn.convert._conversion_error import ConversionError

StoredWeight = tuple[tuple[int, ...], str, Callable[[], Any]]
"""Shape, dtype, and a function that reads the array."""

_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""Dict from safetensors dtypes to NumPy dtypes that `read_safetensors` can return."""


def read_safetensors(path: Path) -> dict[str, StoredWeight]:
    """Reads a `.safetensors` header.

    Args:
        path: `Path`, the file.

    Returns:
        Dict from names to shape, dtype, and a function that reads the array.

    Raises:
        ConversionError: If the file is damaged.
        ImportError: If safetensors is not installed.
    """
    try:
        importlib.import_module("ml_dtypes")  # lets safetensors return bfloat16
        safetensors: Any = importlib.import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            f"Expected safetensors, to read {path.name}. Received: {error}. Install it with "
            "`pip install '.[convert]'` in a checkout."
        ) from error
    try:
        file = safetensors.safe_open(path, framework="numpy")
    except safetensors.SafetensorError as error:
        reason = " ".join(str(error).split())[:200]
        raise ConversionError(
            f"Expected weights in {str(path)!r}. Received: {reason}. Copy the file again."
        ) from error
    weights = {}
    for name in file.keys():
        part = file.get_slice(name)
        dtype = _DTYPES.get(part.get_dtype(), part.get_dtype())
        weights[name] = (tuple(part.get_shape()), dtype, lambda name=name: file.get_tensor(name))
    return weights
