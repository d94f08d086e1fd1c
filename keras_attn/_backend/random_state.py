"""States of the global random generators."""

import random
from typing import Any

import keras
import numpy as np

from keras_attn._backend.private_names import global_seed_state, set_global_seed_state


def get_random_state() -> dict[str, Any]:
    """Returns the states of the global random generators of Python, NumPy, Keras and PyTorch.

    On PyTorch, layers without a seed use PyTorch's generators. TensorFlow's unseeded operations
    have no state that can be restored, and JAX has no global generator.

    Returns:
        Dict with arrays and values that JSON can represent.
    """
    seed = global_seed_state()
    version, numbers, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": [version, np.array(numbers, "uint32"), gauss],
        "numpy": np.random.get_state(legacy=False),
        "keras": None if seed is None else keras.ops.convert_to_numpy(seed),
    }
    if keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        state["torch"] = torch.get_rng_state().numpy()
        if torch.cuda.is_initialized():
            state["cuda"] = [device.numpy() for device in torch.cuda.get_rng_state_all()]
    return state


def draw_loader_seeds(number: int) -> None:
    """Draws seeds from PyTorch's global generator, as its data loaders do in `model.fit`.

    Layers without a seed use the same generator, so their numbers depend on these draws. Other
    backends have no such loaders.

    Args:
        number: Int >= 0, number of seeds.
    """
    if keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        for _ in range(number):
            torch.empty((), dtype=torch.int64).random_()


def set_random_state(state: dict[str, Any]) -> None:
    """Restores a state that `get_random_state` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers.tolist()), gauss))
    np.random.set_state(state["numpy"])
    set_global_seed_state(state["keras"])
    if "torch" in state and keras.backend.backend() == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
        if len(state.get("cuda", ())) == torch.cuda.device_count() > 0:
            torch.cuda.set_rng_state_all([torch.from_numpy(device) for device in state["cuda"]])
