from typing import Any


def plain_lists(nested: Any) -> Any:
    """Converts nested dicts and lists, including the tracked lists of Keras, to Python lists."""
    if isinstance(nested, dict):
        return {name: plain_lists(value) for name, value in nested.items()}
    if isinstance(nested, list | tuple):
        return [plain_lists(item) for item in nested]
    return nested
