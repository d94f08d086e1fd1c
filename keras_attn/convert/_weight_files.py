from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn.convert._checkpoint_file import check_file, read_json
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._safetensors_file import read_safetensors
from keras_attn.convert._torch_file import read_torch

SAFETENSORS = "model.safetensors"
TORCH = "pytorch_model.bin"
FLOATS = ("float16", "bfloat16", "float32", "float64")


class WeightFiles:
    """Checkpoint weights by name, read from `.safetensors` or `.bin` files, whole or sharded.

    The constructor reads only names and shapes. `read` reads one array.

    Args:
        folder: `Path`, the checkpoint.

    Attributes:
        shapes: Dict from weight names to shapes.

    Raises:
        ConversionError: If there are no weights, or a file is missing or damaged.
        ImportError: If a library needed to read the files is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, str] = {}
        self._readers: dict[str, Callable[[], Any]] = {}
        names = (SAFETENSORS, f"{SAFETENSORS}.index.json", TORCH, f"{TORCH}.index.json")
        first = next((name for name in names if (folder / name).is_file()), None)
        if first is None:
            raise ConversionError(
                f"Expected weights in {str(folder)!r}, as one of {names}. Received: files "
                f"{sorted(path.name for path in folder.iterdir())}. Copy the weights into the "
                "folder, or save them with save_pretrained."
            )
        read = read_safetensors if first.startswith(SAFETENSORS) else read_torch
        weight_map = {} if first in (SAFETENSORS, TORCH) else _read_index(folder, first)
        shards = sorted(set(weight_map.values())) or [first]
        _check_shards(folder, first, shards)
        for shard in shards:
            check_file(folder / shard)
            for name, (shape, dtype, reader) in read(folder / shard).items():
                self.shapes[name] = shape
                self._dtypes[name] = dtype
                self._readers[name] = reader
        absent = sorted(set(weight_map) - set(self.shapes))
        if absent:
            raise ConversionError(
                f"Expected all weights that {first} lists in its shards. Received: shards without "
                f"{', '.join(absent[:5])}. Copy the shards again."
            )

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32.

        Raises:
            ConversionError: If the weight has an integer or 8-bit dtype, or contains NaN or
                infinity.
        """
        dtype = self._dtypes[name]
        if dtype not in FLOATS:
            raise ConversionError(
                f"Expected weights of the dtypes {FLOATS}. Received: {name} of dtype {dtype}. "
                "Quantized checkpoints cannot be converted; use the original."
            )
        array = self._readers[name]().astype("float32")
        if not np.isfinite(array).all():
            raise ConversionError(
                f"Expected finite weights. Received: {name}, which contains NaN or infinity. Copy "
                "the file again, or use the checkpoint of an earlier step."
            )
        return array


def _read_index(folder: Path, name: str) -> dict[str, str]:
    """Returns each weight's shard."""
    weight_map = (read_json(folder, name) or {}).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ConversionError(
            f"Expected JSON with a weight_map in {str(folder / name)!r}. Received: weight_map="
            f"{weight_map!r}. Copy the file again."
        )
    return {str(weight): str(shard) for weight, shard in weight_map.items()}


def _check_shards(folder: Path, index: str, shards: Iterable[str]) -> None:
    """Checks that the shards are files in the folder."""
    shards = list(shards)
    outside = [shard for shard in shards if Path(shard).name != shard]
    if outside:
        raise ConversionError(
            f"Expected names of files in the weight_map of {index}. Received: {outside[0]!r}. Copy "
            "all files of the checkpoint into one folder."
        )
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise ConversionError(
            f"Expected all {len(shards)} shards that {index} lists. Received: a folder without "
            f"{', '.join(missing[:5])}. Copy the missing files."
        )
