import keras
from keras import ops

from keras_attn._types import Tensor


def top_k(values: Tensor, k: int | Tensor) -> tuple[Tensor, Tensor]:
    """Returns the `k` largest values along the last axis and their indices, largest first.

    Equal values are ordered by their index. On PyTorch, `ops.top_k` returns equal values in any
    order, so this function uses a stable sort instead.

    Args:
        values: Tensor of shape `(..., n)`.
        k: Int or scalar int tensor, at most n.

    Returns:
        Tuple of the values and their int32 indices, both of shape `(..., k)`.
    """
    if keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        ordered, indices = torch.sort(values, dim=-1, descending=True, stable=True)
        return ordered[..., :k], ops.cast(indices[..., :k], "int32")
    return ops.top_k(values, k)
