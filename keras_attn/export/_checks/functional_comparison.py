"""Comparison of an exported functional model with Keras."""

import contextlib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.export._checks.differing_layer import differing_layer
from keras_attn.export._checks.dynamic_sizes import batches_of_other_sizes, describe_axes
from keras_attn.export._checks.output_difference import difference, largest_difference
from keras_attn.export._export_error import ExportError
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._types import Run
from keras_attn_checks.export_options import DynamicSizes

if TYPE_CHECKING:
    import tensorflow as tf


def expected_batches(
    function: FunctionalFunction, arrays: list[np.ndarray], dynamic_sizes: DynamicSizes | None
) -> "tuple[list[tuple[list[np.ndarray], dict[str, tf.Tensor]]], set[tuple[str, int]]]":
    """Returns batches for the comparison: the sample, its first row, and the sample resized.

    Args:
        function: `FunctionalFunction`.
        arrays: List of arrays, the sample: one array for each input.
        dynamic_sizes: See `export_functional_onnx`.

    Returns:
        Tuple of a list of pairs (arrays, results of Keras), and a set of pairs (name of an input,
        axis): the axes of fixed size.
    """
    batches = [(arrays, function(*arrays))]
    more, failures = batches_of_other_sizes(function, function.inputs, arrays, dynamic_sizes)
    for axes, reason in failures.items():
        sizes = {arrays[list(function.inputs).index(name)].shape[axis] for name, axis in axes}
        warnings.warn(
            f"The exported file has the fixed size {sizes.pop()} for {describe_axes(axes)}: "
            f"{reason}. If the model supports other sizes, pass them as `dynamic_sizes`.",
            stacklevel=4,
        )
    fixed = {pair for axes in failures for pair in axes}
    has_free_rows = all(
        value.shape[0] is None and (name, 0) not in fixed for name, value in function.inputs.items()
    )
    if has_free_rows:
        first = [array[:1] for array in arrays]
        with contextlib.suppress(Exception):  # if Keras fails on one row, the file may fail too
            batches.append((first, function(*first)))
    return batches + more, fixed


def compare_functional(
    function: FunctionalFunction,
    arrays: Sequence[np.ndarray],
    expected: "Mapping[str, tf.Tensor]",
    run: Run,
    tolerance: float,
) -> float:
    """Returns the largest difference between Keras and the file for a batch.

    Args:
        function: `FunctionalFunction`.
        arrays: List of arrays: one array for each input.
        expected: Dict of arrays, results of Keras.
        run: Function that runs the file: it takes and returns arrays by name.
        tolerance: Float, maximum difference; relative where the absolute value is above 1.

    Raises:
        ExportError: If the difference is above the tolerance.
    """
    feed = dict(zip(function.inputs, arrays, strict=True))
    failure = None
    try:
        largest, reason = largest_difference(expected, run, feed)
    except ExportError as error:  # the file cannot be run
        largest, reason, failure = float("inf"), "", error
    if largest <= tolerance:
        return largest

    def differs(value: np.ndarray, other: np.ndarray) -> bool:
        return not difference(value, other)[0] <= tolerance

    layer = differing_layer(function, feed, differs)
    shapes = {name: array.shape for name, array in feed.items()}
    where = f" The first difference is in the output of {layer}." if layer else ""
    # No tolerance allows other shapes, other integers, NaN, or a file that fails.
    if math.isfinite(largest):
        advice = "If your task allows this difference, pass a larger tolerance."
    else:
        advice = "Replace this operation by another one of keras.ops."
    if failure is not None:
        raise ExportError(
            f"{failure}, for inputs with shapes {shapes}.{where} {advice}"
        ) from failure
    raise ExportError(
        f"The exported model disagrees with Keras: expected differences up to {tolerance}. "
        f"Received: {reason}, for inputs with shapes {shapes}.{where} {advice}"
    )
