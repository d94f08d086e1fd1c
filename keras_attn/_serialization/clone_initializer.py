import zlib
from typing import Any


def clone_initializer(initializer: Any, name: str) -> Any:
    """Returns a copy of an initializer for the weight `name`.

    If the initializer has an explicit seed, the copy has the same seed and returns the same
    numbers. Otherwise Keras sampled a seed for the initializer, and the seed of the copy is derived
    from this seed and `name`. Functions and other objects without the method `clone` are returned
    unchanged.

    Args:
        initializer: Keras initializer, or function.
        name: String, for example the name of the weight.
    """
    if not hasattr(initializer, "clone"):
        return initializer
    other = initializer.clone()
    if hasattr(initializer, "seed") and initializer.get_config().get("seed") is None:
        # Replace the seed that Keras sampled for the copy, because this seed depends on the order
        # in which weights are created.
        other.seed = zlib.crc32(f"{initializer.seed} {name}".encode())
    return other
