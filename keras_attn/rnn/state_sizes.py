def state_sizes(cell):
    """Returns the state sizes of a cell as nested lists, also for a cell with a single int."""
    sizes = plain_lists(cell.state_size)
    return [sizes] if isinstance(sizes, int) else sizes


def plain_lists(nested):
    """Converts nested lists, including the tracked lists of Keras, to Python lists."""
    return [plain_lists(item) for item in nested] if isinstance(nested, list | tuple) else nested
