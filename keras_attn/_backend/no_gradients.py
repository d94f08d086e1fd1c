import contextlib
from typing import Any

import keras


def no_gradients() -> Any:
    """Context in which PyTorch records no operations for a backward pass.

    Without it, the results of a search would keep the intermediate results of all steps in memory.
    On other backends, gradients are only computed on request.
    """
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch  # pyright: ignore[reportMissingImports]

    return torch.no_grad()
