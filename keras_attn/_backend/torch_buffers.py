"""Buffers in PyTorch modules, which Keras does not track."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np


class TorchBuffer:
    """A buffer of a `torch.nn.Module`, with the methods of a variable that a saved state needs.

    Args:
        name: String, the buffer's name in its module.
        tensor: `torch.Tensor`, which `assign` changes in place.
    """

    def __init__(self, name: str, tensor: Any) -> None:
        self.name = self.path = name
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.tensor.detach().cpu().numpy()
        return np.array(array, dtype)  # a copy, because the next step changes the tensor in place

    def assign(self, value: Any) -> None:
        """Copies an array into the buffer."""
        self.tensor.detach().copy_(keras.ops.convert_to_tensor(value))


def torch_buffers(layers: Sequence[keras.layers.Layer]) -> list[TorchBuffer]:
    """Returns the buffers in layers that wrap PyTorch modules, such as `BatchNorm1d.running_mean`.

    Keras wraps a `torch.nn.Module` in a `TorchModuleWrapper`, which tracks only its parameters.

    Args:
        layers: List of layers, including the nested ones.

    Returns:
        List of `TorchBuffer`, each tensor once.
    """
    buffers: dict[int, TorchBuffer] = {}
    for layer in layers:
        if isinstance(layer, keras.layers.TorchModuleWrapper):
            module: Any = layer.module
            for name, tensor in module.named_buffers():
                buffers.setdefault(id(tensor), TorchBuffer(f"{layer.path}/{name}", tensor))
    return list(buffers.values())
