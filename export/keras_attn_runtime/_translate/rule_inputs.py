"""Inputs of rules of the search."""

from collections.abc import Mapping
from typing import cast

import numpy as np

from keras_attn_runtime._array_types import Arrays
from keras_attn_runtime._file_format.settings import RuleInput


def read_rule_inputs(given: object, declared: Mapping[str, RuleInput]) -> Arrays:
    """Returns a dict from inputs of rules to arrays.

    Args:
        given: dict from names to numbers or arrays without a batch axis.
        declared: dict from the inputs in the file to their types.

    Raises:
        ValueError: if a name is not an input of a rule, or a value has another shape or type.
    """
    if not isinstance(given, Mapping):
        raise ValueError(
            "Expected rule_inputs to be a dict from names to numbers or arrays. Received: "
            f"type={type(given).__name__}."
        )
    arrays: Arrays = {}
    for name, value in cast(Mapping[object, object], given).items():
        if not isinstance(name, str) or name not in declared:
            raise ValueError(_unknown(name, [*declared]))
        arrays[name] = _array(name, value, declared[name])
    return arrays


def _unknown(name: object, known: list[str]) -> str:
    if not known:
        return (
            "Expected no rule_inputs, because no rule of the search in this file has inputs. "
            f"Received: {name!r}. Export a model whose rules have call_inputs, or omit it."
        )
    return (
        f"Expected rule_inputs out of {known}, the inputs of rules in the file. Received: "
        f"{name!r}. Correct the name."
    )


def _array(name: str, value: object, declared: RuleInput) -> np.ndarray:
    shape = declared["shape"][1:]
    try:
        array = np.asarray(value)
        with np.errstate(all="ignore"):  # values that do not fit are errors
            converted = array.astype(declared["dtype"])
        is_finite = bool(np.isfinite(converted).all()) and array.dtype != bool
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"Expected rule_inputs[{name!r}] to be a number or an array of {declared['dtype']}. "
            f"Received: {value!r}."
        ) from None
    is_equal = array.ndim == len(shape) and all(
        size == other or isinstance(size, str)
        for size, other in zip(shape, array.shape, strict=True)
    )
    is_exact = declared["dtype"] != "int32" or bool((converted == array).all())
    if not (is_equal and is_finite and is_exact):
        raise ValueError(
            f"Expected rule_inputs[{name!r}] of the shape {tuple(shape)} with finite "
            f"{declared['dtype']} numbers. Received: {value!r}."
        )
    return converted
