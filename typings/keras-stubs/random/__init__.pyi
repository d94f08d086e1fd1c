# Only the functions that keras_attn uses, as for keras.ops.
from typing import Any

from keras.src.random.seed_generator import SeedGenerator as SeedGenerator

from keras_attn._types import Tensor, TensorLike

Seed = int | SeedGenerator | None

def normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Seed = None
) -> Tensor: ...
def randint(
    shape: Any,
    minval: TensorLike,
    maxval: TensorLike,
    dtype: Any = "int32",
    seed: Seed = None,
) -> Tensor: ...
def uniform(
    shape: Any,
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: Any = None,
    seed: Seed = None,
) -> Tensor: ...
