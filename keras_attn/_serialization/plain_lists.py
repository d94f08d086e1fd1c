from typing import Any


def plain_lists(nested: Any) -> Any:
    """Returns nested dicts and lists with Python's lists in place of all kinds of lists.

    Keras replaces lists that are attributes of a layer by a class of its own.
    """
    if isinstance(nested, dict):
        return {name: plain_lists(value) for name, value in nested.items()}
    if isinstance(nested, list | tuple):
        return [plain_lists(each) for each in nested]
    return nested
