"""Runs a part of a graph only if a condition holds."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def run_if(condition: Tensor, function: Callable[[Any], Any], values: Any) -> Any:
    """Returns `function(values)` if a condition holds, otherwise `values`.

    On TensorFlow, this is a loop of at most one step, because tf2onnx does not know the shapes of
    tensors in the branches of a condition.

    Args:
        condition: Scalar boolean tensor.
        function: Function of `values` whose results have the same structure, shapes and dtypes.
        values: Nested structure of tensors.
    """
    if keras.backend.backend() == "tensorflow":
        return ops.while_loop(
            lambda run, values: run,
            lambda run, values: (ops.logical_not(run), function(values)),
            (condition, values),
        )[1]
    return ops.cond(condition, lambda: function(values), lambda: values)
