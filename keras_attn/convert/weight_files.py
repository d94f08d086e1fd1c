import importlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn.convert.conversion_error import ConversionError

SAFETENSORS = "model.safetensors"
TORCH = "pytorch_model.bin"
FLOATS = ("float16", "bfloat16", "float32", "float64")


class WeightFiles:
    """Weights of a checkpoint by name, read from `.safetensors` or `.bin` files, whole or sharded.

    The constructor reads only names and shapes; `read` reads one array.

    Args:
        folder: `Path` of the checkpoint.

    Attributes:
        shapes: Dict from the names of the weights to their shapes.

    Raises:
        ConversionError: If there are no weights, or a file is missing or damaged.
        ImportError: If a library that is needed to read the files is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._readers: dict[str, Callable[[], Any]] = {}
        names = (SAFETENSORS, f"{SAFETENSORS}.index.json", TORCH, f"{TORCH}.index.json")
        found = next((name for name in names if (folder / name).is_file()), None)
        if found is None:
            raise ConversionError(
                f"Expected weights in {str(folder)!r}, as one of {names}. Received: files "
                f"{sorted(path.name for path in folder.iterdir())}. Copy the weights into the "
                "folder, or save them with save_pretrained."
            )
        add = self._add_safetensors if found.startswith(SAFETENSORS) else self._add_torch
        if found in (SAFETENSORS, TORCH):
            add(folder / found)
            return
        weight_map = _read_index(folder / found)
        shards = sorted(set(weight_map.values()))
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        if missing:
            raise ConversionError(
                f"Expected all {len(shards)} shards that {found} lists. Received: a folder without "
                f"{', '.join(missing)}. Copy the missing files."
            )
        for shard in shards:
            add(folder / shard)
        absent = sorted(set(weight_map) - set(self.shapes))
        if absent:
            raise ConversionError(
                f"Expected all weights that {found} lists in its shards. Received: shards without "
                f"{', '.join(absent[:5])}. Copy the shards again."
            )

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32."""
        array = self._readers[name]()
        if array.dtype.name not in FLOATS:
            raise ConversionError(
                f"Expected weights of the dtypes {FLOATS}. Received: {name} of dtype "
                f"{array.dtype.name}. Quantized checkpoints cannot be converted; use the original."
            )
        return array.astype("float32")

    def _add_safetensors(self, path):
        try:
            importlib.import_module("ml_dtypes")  # lets safetensors return bfloat16
            safetensors: Any = importlib.import_module("safetensors")
        except ImportError as error:
            raise ImportError(
                f"Expected safetensors, to read {path.name}. Received: {error}. Install it with "
                "`pip install keras-attn[convert]`."
            ) from error
        try:
            file = safetensors.safe_open(path, framework="numpy")
        except safetensors.SafetensorError as error:
            raise ConversionError(_damaged(path, error)) from error
        for name in file.keys():
            self.shapes[name] = tuple(file.get_slice(name).get_shape())
            self._readers[name] = lambda name=name: file.get_tensor(name)

    def _add_torch(self, path):
        try:
            torch: Any = importlib.import_module("torch")
        except ImportError as error:
            raise ImportError(
                f"Expected PyTorch, to read {path.name}. Received: {error}. Install it with `pip "
                "install torch`, or save the checkpoint as safetensors with save_pretrained."
            ) from error
        try:
            # A .bin file is a pickle, which may contain code. Load tensors only.
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (EOFError, OSError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            raise ConversionError(_damaged(path, error)) from error
        for name, tensor in state.items():
            self.shapes[name] = tuple(tensor.shape)
            self._readers[name] = lambda tensor=tensor: _to_numpy(tensor)


def _to_numpy(tensor):
    # NumPy has no bfloat16. Convert to float32, which represents all bfloat16 values exactly.
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _damaged(path, error):
    reason = " ".join(str(error).split())[:200]
    return f"Expected weights in {str(path)!r}. Received: {reason}. Copy the file again."


def _read_index(path):
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(shard) for name, shard in weight_map.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConversionError(
            f"Expected JSON with a weight_map in {str(path)!r}. Received: {error!r}. Copy the file "
            "again."
        ) from error
