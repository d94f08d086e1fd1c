"""Rows that stand for all rows."""


def evenly_spaced(count: int, total: int) -> list[int]:
    """Returns the numbers of some rows, evenly distributed over all rows.

    Args:
        count: Int, how many rows; fewer if there are fewer.
        total: Int, number of all rows.
    """
    count = min(count, total)
    return [index * total // count for index in range(count)]
