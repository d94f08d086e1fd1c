import contextlib
import warnings
from os import PathLike
from typing import Any

import keras

from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.check_stateless import check_stateless
from keras_attn.export.checks.differing_layer import differing_layer
from keras_attn.export.checks.dynamic_sizes import batches_of_other_sizes, describe_axes
from keras_attn.export.checks.output_difference import difference, largest_difference
from keras_attn.export.checks.sample_inputs import arrays_in_order, check_dense_numbers
from keras_attn.export.export_error import ExportError
from keras_attn.export.formats.onnx_file import new_onnx_file
from keras_attn.export.passes import PASSES, top_k_of_no_rows
from keras_attn.export.passes.clean import clean
from keras_attn.export.require import require
from keras_attn.export.trace.conversion import convert
from keras_attn.export.trace.functional_function import FunctionalFunction
from keras_attn.export.trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export.trace.trace_function import trace


def export_functional_onnx(
    model: Any,
    path: str | PathLike[str],
    sample_inputs: Any,
    tolerance: float = 1e-5,
    *,
    dynamic_sizes: Any = None,
    allow_nonfinite: bool = False,
) -> Any:
    """Writes any functional model as an ONNX file, for instance a classifier with attention.

    The same conversion and the same checks as in `export_onnx`. Inputs are called like the inputs
    of the model or the keys of its dictionary of inputs; outputs like the keys of its dictionary of
    outputs (`outer/inner` where it is nested) or, without one, like the layers that they come from
    (a second output of a layer, or an input that is also an output, ends in `_1`). Keys that would
    give two of them the same name are refused. The first axis is called
    `batch`, any other dynamic axis like its tensor and its number (`ids_1`), and so is the first
    one of an output that has another number of rows than the inputs.
    A model of mixed precision is exported in float32, the precision of its weights.

    Args:
        model: functional Keras model.
        path: name of the file; an existing one is replaced. Above 2 GB it is a directory.
        sample_inputs: what `model.predict` takes: an array, a list or a dictionary of arrays. The
            file must give what Keras gives for the whole sample, for its first row alone (unless
            the model has a fixed batch size), and for a sample with other sizes of all dynamic
            axes, which is the given one with some entries repeated.
        tolerance: float, largest difference allowed, relative to values above 1; integers must be
            equal. Defaults to 1e-5.
        dynamic_sizes: optional dictionary from the name of an input to its shape in that second
            sample; `None` in a shape stands for the size in `sample_inputs`. By default each
            dynamic axis gets another size. Axes with equal sizes in `sample_inputs` get equal
            sizes, but batch axes only change with each other. If Keras itself fails at every
            size tried for an axis, the axis has a fixed size in the file, and a warning names it.
        allow_nonfinite: bool, whether weights may be NaN or infinite. The results must still equal
            those of Keras, which NaN never does. Defaults to `False`.

    Returns:
        float, the largest difference found.

    Raises:
        ExportError: a check failed; if the results differ, the message names the first layer with
            a different output. No file is written; an existing one stays as it was.
        ImportError: tf2onnx, onnx or onnxruntime is missing.
        ValueError: `model` is not functional (a `Sequential` that is built is), a layer is
            stateful, an input is of strings, sparse or ragged, two keys give the same name or
            none, or the sample or `dynamic_sizes` does not fit the inputs.
    """
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise ValueError(f"Expected a functional Keras model. Received: model={model}.")
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs)
    check_stateless(model)
    check_finite(model.variables, allow_nonfinite)
    function = FunctionalFunction(model)
    check_dense_numbers(function.inputs)
    arrays = arrays_in_order(sample_inputs, function.inputs)
    with without_tensor_float_32(), new_onnx_file(path, model.variables) as file:
        batches, fixed = _expected_batches(function, arrays, dynamic_sizes)
        dimensions = function.dimensions(arrays, batches, fixed)
        converted = convert(trace(function.traceable(), function.signature, model.variables))
        clean(converted, dimensions, {}, (*PASSES, top_k_of_no_rows))
        run = file.write(converted)
        return max(_compare(function, feed, expected, run, tolerance) for feed, expected in batches)


def _expected_batches(function, arrays, dynamic_sizes):
    """The sample, its first row and the sample in other sizes, each with the results of Keras.

    Returns:
        Tuple of a list of pairs and of the set of the fixed axes, pairs of a name and a number.
    """
    batches = [(arrays, function(*arrays))]
    others, failures = batches_of_other_sizes(function, function.inputs, arrays, dynamic_sizes)
    for axes, reason in failures.items():
        sizes = {arrays[list(function.inputs).index(name)].shape[axis] for name, axis in axes}
        warnings.warn(
            f"The exported file has the fixed size {sizes.pop()} for {describe_axes(axes)}: "
            f"{reason}. If it can run at others, pass them as `dynamic_sizes`.",
            stacklevel=3,
        )
    fixed = {pair for axes in failures for pair in axes}
    has_free_rows = all(
        value.shape[0] is None and (name, 0) not in fixed for name, value in function.inputs.items()
    )
    if has_free_rows:
        first = [array[:1] for array in arrays]
        with contextlib.suppress(Exception):  # what Keras cannot do the file need not do
            batches.append((first, function(*first)))
    return batches + others, fixed


def _compare(function, arrays, expected, run, tolerance):
    """The largest difference between Keras and the file for one batch.

    Raises:
        ExportError: it is above the tolerance.
    """
    feed = dict(zip(function.inputs, arrays, strict=True))
    try:
        largest, reason = largest_difference(expected, run, feed)
    except ExportError as error:  # it cannot be run
        largest, reason = float("inf"), str(error)
    if largest <= tolerance:
        return largest

    def differs(value, other):
        return not difference(value, other)[0] <= tolerance

    layer = differing_layer(function, feed, differs)
    shapes = {name: array.shape for name, array in feed.items()}
    where = f" The first difference is in the output of {layer}." if layer else ""
    raise ExportError(
        f"The exported model disagrees with Keras: expected differences up to {tolerance}. "
        f"Received: {reason}, for inputs with shapes {shapes}.{where}"
    )
