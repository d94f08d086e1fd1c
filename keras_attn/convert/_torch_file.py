import importlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._safetensors_file import StoredWeight

NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which training programs store the weights, beside optimizer state."""


def read_torch(path: Path) -> dict[str, StoredWeight]:
    """Reads a PyTorch file that contains a state dict.

    Args:
        path: `Path`, the file. It contains the state dict directly, or under one of the keys
            `NESTED`.

    Returns:
        Dict from names to shape, dtype, and a function that returns the array.

    Raises:
        ConversionError: If the file is damaged, or contains objects other than tensors.
        ImportError: If PyTorch is not installed.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"Expected PyTorch, to read {path.name}. Received: {error}. Install it with `pip "
            "install torch`, or save the checkpoint as safetensors with save_pretrained."
        ) from error
    try:
        # A .bin file is a pickle, which may contain code. Load tensors only.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise any error
        if isinstance(error, pickle.UnpicklingError) and "Unsupported" in str(error):
            raise _error(path, "Python objects that are not tensors") from error
        raise _damaged(path, error) from error
    state = _state_dict(path, content, torch.Tensor)
    return {name: _entry(path, name, tensor) for name, tensor in state.items()}


def _state_dict(path: Path, content: Any, tensor: type) -> Mapping[str, Any]:
    """Returns the dict from names to tensors in a file's content."""
    if not isinstance(content, Mapping):
        raise _error(path, f"an object of the type {type(content).__name__}")
    nested = [name for name in NESTED if isinstance(content.get(name), Mapping)]
    if len(nested) == 1:
        return _state_dict(path, content[nested[0]], tensor)
    if nested:
        raise _error(path, f"weights under each of the keys {nested}")
    for name, value in content.items():
        if not isinstance(value, tensor):
            raise _error(path, f"{str(name)!r} of the type {type(value).__name__}")
    return {str(name): value for name, value in content.items()}


def _entry(path, name, tensor):
    if tensor.is_sparse or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
        raise _error(path, f"{name!r}, a {tensor.layout} tensor of dtype {tensor.dtype}")
    dtype = str(tensor.dtype).removeprefix("torch.")
    # NumPy has no bfloat16. Convert to float32, which represents all bfloat16 values exactly.
    return tuple(tensor.shape), dtype, lambda: tensor.detach().float().numpy()


def _damaged(path, error):
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return ConversionError(
        f"Expected weights in {str(path)!r}. Received: {reason}. Copy the file again."
    )


def _error(path, received):
    return ConversionError(
        f"Expected a state dict in {str(path)!r}, from names to tensors, or one under one of the "
        f"keys {NESTED}. Received: {received}. Save the weights with model.save_pretrained, or "
        "with torch.save(model.state_dict(), path)."
    )
