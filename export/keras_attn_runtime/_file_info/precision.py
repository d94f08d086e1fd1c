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
"""Maps matrix dtypes to file precisions, in order of increasing precision."""


def lowest_precision(dtypes: Set[str]) -> str | None:
    """Returns the lowest matrix precision, such as "int8"; `None` without matrices."""
    return next((PRECISIONS[dtype] for dtype in PRECISIONS if dtype in dtypes), None)
