import zlib
from typing import Any


def clone_initializer(initializer: Any, name: str) -> Any:
    """One like it that draws other numbers, if it draws any: which, follows from it and the name.

    An initializer that was given a seed gives the same numbers each time. What is no
    `keras.initializers` object, such as a function, is returned as it is.
    """
    if not hasattr(initializer, "clone"):
        return initializer
    other = initializer.clone()
    if hasattr(initializer, "seed") and initializer.get_config().get("seed") is None:
        # That of Keras is drawn when it is made, which for this one is when weights are.
        other.seed = zlib.crc32(f"{initializer.seed} {name}".encode())
    return other
