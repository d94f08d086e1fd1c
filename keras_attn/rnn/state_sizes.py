from typing import Any


def state_sizes(cell: Any) -> Any:
    """Sizes of the states of a cell as nested lists, also where the cell has a single int."""
    sizes = plain_lists(cell.state_size)
    return [sizes] if isinstance(sizes, int) else sizes


def plain_lists(nested: Any) -> Any:
    """Lists as Python has them: Keras replaces those that are attributes by a class of its own."""
    return [plain_lists(item) for item in nested] if isinstance(nested, list | tuple) else nested
