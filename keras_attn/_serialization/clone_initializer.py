import zlib
from typing import Any


def clone_initializer(initializer: Any, name: str) -> Any:
    """Returns a copy of an initializer with a seed derived from its own seed and `name`.

    An initializer with an explicit seed keeps it, so that its copies return the same numbers.
    Functions and other objects without `clone` are returned unchanged.

    Args:
        initializer: Keras initializer, or function.
        name: String, for instance the name of the weight.
    """
    if not hasattr(initializer, "clone"):
        return initializer
    other = initializer.clone()
    if hasattr(initializer, "seed") and initializer.get_config().get("seed") is None:
        # The seed that Keras sampled for the clone depends on the order in which weights are
        # created.
        other.seed = zlib.crc32(f"{initializer.seed} {name}".encode())
    return other
