"""Comparison of two fingerprints, see `training_fingerprint`."""

import json
from collections.abc import Sequence
from typing import Any

_MOST_SHOWN = 5

_CODE_KEYS = {"code", "defaults", "closure", "functions", "methods", "attributes"}
"""Keys with which earlier versions described the code of functions and classes."""


def fingerprint_differences(saved: dict[str, Any], current: dict[str, Any]) -> list[str]:
    """Lists the differences between two fingerprints.

    Args:
        saved: Dict, see `training_fingerprint`. The fingerprint of an earlier version may also
            contain checksums of code, which are not compared.
        current: Dict, see `training_fingerprint`. Top-level keys that only one of the dicts has are
            not compared.

    Returns:
        List of strings such as `"model.hidden.activation: saved 'tanh', now 'relu'"`.
    """
    differences = []
    for part in saved.keys() & current.keys():
        differences += _differences(part, saved[part], current[part])
    return sorted(differences)


def differences_in_one_line(differences: Sequence[str]) -> str:
    """Returns the first differences and the number of further differences."""
    shown = "; ".join(differences[:_MOST_SHOWN])
    more = len(differences) - _MOST_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


def _differences(path: str, saved: object, current: object) -> list[str]:
    if isinstance(saved, dict) and isinstance(current, dict):
        return [
            difference
            for key in sorted((saved.keys() - _CODE_KEYS) | current.keys())
            for difference in _differences(
                path if key == "config" else f"{path}.{key}", saved.get(key), current.get(key)
            )
        ]
    if isinstance(saved, list) and isinstance(current, list) and len(saved) == len(current):
        return [
            difference
            for index, (before, now) in enumerate(zip(saved, current, strict=True))
            for difference in _differences(f"{path}.{_label(before, now, index)}", before, now)
        ]
    if isinstance(saved, dict) and isinstance(current, str):
        saved = _former_function_name(saved)
    if saved == current or (saved != saved and current != current):  # both nan
        return []
    return [f"{path}: saved {_short(saved)}, now {_short(current)}"]


def _former_function_name(saved: dict[str, Any]) -> object:
    """Returns the name of a function that an earlier version described by its name and code."""
    if "config" in saved:
        return saved  # a Keras object
    if "partial" in saved:
        return "partial"
    wrappers = ("method", "__wrapped__", "python_function")
    function = next((saved[key] for key in wrappers if key in saved), saved)
    if isinstance(function, str):
        return function
    return function.get("function", function.get("class_name", saved))


def _label(saved: object, current: object, index: int) -> str | int:
    """Returns the name of a list item if both runs have the same name, otherwise its index."""
    names = [item.get("name") if isinstance(item, dict) else None for item in (saved, current)]
    return names[0].removesuffix("#0") if names[0] and names[0] == names[1] else index


def _short(value: object) -> str:
    return f"{json.dumps(value)[:60]}..." if isinstance(value, (dict, list)) else repr(value)
