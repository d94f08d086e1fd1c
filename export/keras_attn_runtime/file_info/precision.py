from collections.abc import Set

PRECISIONS = {
    "int4": "int4",
    "uint4": "int4",
    "int8": "int8",
    "uint8": "int8",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float64": "float64",
}
"""Maps the dtype of matrices to the precision of a file, in order of increasing precision."""


def lowest_precision(dtypes: Set[str]) -> str | None:
    """Returns the lowest precision of matrices, such as "int8"; `None` without matrices."""
    return next((PRECISIONS[each] for each in PRECISIONS if each in dtypes), None)
