import contextlib
from itertools import count

import keras
import numpy as np

from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.check_stateless import check_stateless
from keras_attn.export.checks.differing_layer import differing_layer
from keras_attn.export.checks.dynamic_sizes import batches_of_other_sizes
from keras_attn.export.export_error import ExportError
from keras_attn.export.formats.onnx_file import write_onnx
from keras_attn.export.passes import PASSES, top_k_of_no_rows
from keras_attn.export.require import require
from keras_attn.export.trace.folded_time import folded_time
from keras_attn.export.trace.fused_recurrence import fused_recurrence
from keras_attn.export.trace.in_float32 import in_float32
from keras_attn.export.trace.without_cudnn import without_cudnn
from keras_attn.export.trace.without_dropout import without_dropout

DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""The dtypes that an input of an exported file can have."""


def export_functional_onnx(
    model, path, sample_inputs, tolerance=1e-5, *, dynamic_sizes=None, allow_nonfinite=False
):
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
    import tensorflow as tf

    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise ValueError(f"Expected a functional Keras model. Received: model={model}.")
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs)
    check_stateless(model)
    check_finite(model.variables, allow_nonfinite)
    inputs = dict(zip(_input_names(model), model.inputs, strict=True))
    names = _output_names(model, inputs)
    _check_dense_numbers(inputs)
    arrays = _in_order(sample_inputs, inputs)

    def function(*tensors):
        values = keras.tree.pack_sequence_as(model.input, tensors)
        results = keras.tree.flatten(model(values, training=False))
        return dict(zip(names, results, strict=True))

    signature = [tf.TensorSpec(each.shape, each.dtype, name=name) for name, each in inputs.items()]

    def traced(function):
        return folded_time(model)(fused_recurrence(model)(function))

    def verify(run):
        largest = 0.0
        for batch, values in batches:
            feed = dict(zip(inputs, batch, strict=True))
            try:
                difference, reason = _largest_difference(values, run, feed)
            except ExportError as error:  # it cannot be run
                difference, reason = float("inf"), str(error)
            if not difference <= tolerance:
                layer = differing_layer(
                    model,
                    function,
                    traced,
                    signature,
                    feed,
                    lambda value, other: not _difference(value, other)[0] <= tolerance,
                )
                shapes = {name: array.shape for name, array in feed.items()}
                where = f" The first difference is in the output of {layer}." if layer else ""
                raise ExportError(
                    "The exported model disagrees with Keras: expected differences up to "
                    f"{tolerance}. Received: {reason}, for inputs with shapes {shapes}.{where}"
                )
            largest = max(largest, difference)
        return largest

    with without_cudnn(model), without_dropout(model), in_float32(model):
        batches = [(arrays, function(*arrays))]
        others, fixed = batches_of_other_sizes(function, inputs, arrays, dynamic_sizes)
        if all(
            value.shape[0] is None and 0 not in fixed.get(name, ())
            for name, value in inputs.items()
        ):
            first = [array[:1] for array in arrays]
            with contextlib.suppress(Exception):  # what Keras cannot do the file need not do
                batches.append((first, function(*first)))
        batches += others
        shapes = {
            name: [
                array.shape[axis] if axis in fixed.get(name, ()) else size
                for axis, size in enumerate(value.shape)
            ]
            for (name, value), array in zip(inputs.items(), arrays, strict=True)
        }
        axes = {name: _axes(name, shape) for name, shape in shapes.items()}
        for name, value in zip(names, model.outputs, strict=True):
            as_many = all(
                values[name].shape[:1] in {array.shape[:1] for array in batch}
                for batch, values in batches
            )
            axes[name] = _axes(name, value.shape, first="batch" if as_many else f"{name}_0")
        difference, _ = write_onnx(
            path,
            traced(function),
            signature,
            model.variables,
            axes,
            {},
            verify,
            passes=(*PASSES, top_k_of_no_rows),
        )
    return difference


def _check_dense_numbers(inputs):
    """Refuses inputs that an ONNX file cannot have, by name: `inputs` is a dict of them."""
    strings = [name for name, value in inputs.items() if value.dtype == "string"]
    if strings:
        raise ValueError(
            f"Expected inputs of numbers. Received: inputs of dtype string, {strings}. An exported "
            "file has no operators for strings. Export the part of the model after its "
            "TextVectorization or StringLookup layer, whose input are ids, and apply that layer to "
            "the strings before you run the file."
        )
    others = {name: value.dtype for name, value in inputs.items() if value.dtype not in DTYPES}
    if others:
        raise ValueError(
            f"Expected inputs of the dtypes {', '.join(DTYPES)}. Received: {others}. Make the "
            "input float32, and convert it in the model with keras.ops.cast."
        )
    for kind in ("sparse", "ragged"):
        found = [name for name, value in inputs.items() if getattr(value, kind, False)]
        if found:
            raise ValueError(
                f"Expected dense inputs. Received: {kind} inputs, {found}. Make the model with "
                f"keras.Input(..., {kind}=False)."
            )


def _input_names(model):
    """The names of a functional model's inputs, in the order of `model.inputs`."""
    if isinstance(model.input, dict):
        return _paths(model.input, "inputs")
    return [value.name for value in model.inputs]


def _output_names(model, input_names):
    """The names of a functional model's outputs, in the order of `model.outputs`.

    All differ from each other and from the names of the inputs, as an ONNX file needs it.
    """
    if isinstance(model.output, dict):
        names = _paths(model.output, "outputs")
        shared = [name for name in names if name in input_names]
        if shared:
            raise ValueError(
                "Expected outputs named differently from the inputs. Received: inputs="
                f"{list(input_names)}, outputs={names}, with {shared} in both. Rename these keys "
                "in the dictionary of outputs, for instance keras.Model(model.input, "
                f"{{{shared[0] + '_output'!r}: ...}})."
            )
        return names
    names = []
    for name in model.output_names:
        different = (f"{name}_{number}" if number else name for number in count())
        taken = (*names, *input_names)
        names.append(next(each for each in different if each not in taken))
    return names


def _paths(structure, what):
    """The paths of the tensors in a dictionary of a model's inputs or outputs, all different."""
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    names = ["/".join(map(str, path)) for path in paths]
    same = [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]
    if same:
        raise ValueError(
            f"Expected keys of the {what} that give each of them a name of its own, such as "
            f"'outer/inner'. Received: the keys {same}, which give the same name. Rename a key in "
            f"the dictionary of {what}."
        )
    if "" in names:
        raise ValueError(
            "Expected keys that are not empty, because an ONNX file needs a name for each of the "
            f"{what}. Received: the keys {paths}. Rename the empty one."
        )
    return names


def _axes(name, shape, first="batch"):
    return tuple(
        size if size is not None else first if axis == 0 else f"{name}_{axis}"
        for axis, size in enumerate(shape)
    )


def _in_order(sample, inputs):
    """The arrays of a sample in the order of a dict of inputs, with the types of these."""
    if isinstance(sample, dict):
        found = {name: _entry(sample, name) for name in inputs}
        missing = [name for name, array in found.items() if array is None]
        if missing:
            raise ValueError(f"Expected an array for each input. Received: none for {missing}.")
        sample = list(found.values())
    arrays = list(sample) if isinstance(sample, (list, tuple)) else [sample]
    shapes = [np.shape(array) for array in arrays]
    is_free = [value.shape[0] is None for value in inputs.values()]
    rows = {shape[:1] for shape, free in zip(shapes, is_free, strict=False) if free}
    is_empty = any(shape[:1] in [(), (0,)] for shape in shapes)
    if len(arrays) != len(inputs) or is_empty or len(rows) > 1:
        raise ValueError(
            f"Expected {len(inputs)} arrays with the same number of rows, at least one. "
            f"Received: sample_inputs with shapes {shapes}."
        )
    pairs = list(zip(arrays, inputs.items(), strict=True))
    for array, (name, value) in pairs:
        if np.ndim(array) != len(value.shape):
            raise ValueError(
                f"Expected an array of shape {tuple(value.shape)} for the input {name!r}. "
                f"Received: sample_inputs with shape {np.shape(array)}."
            )
        if value.shape[0] not in (None, len(array)):
            raise ValueError(
                f"Expected {value.shape[0]} rows, the batch size of the input {name!r}. "
                f"Received: sample_inputs with {len(array)} rows."
            )
    return [np.asarray(array, value.dtype) for array, (_, value) in pairs]


def _entry(sample, name):
    """The array that a sample, which may be nested, has for an input; `None` without one."""
    if isinstance(sample, dict) and name in sample:
        return sample[name]
    if not isinstance(sample, (dict, list, tuple)):
        return None
    items = sample.items() if isinstance(sample, dict) else enumerate(sample)
    for key, value in items:
        if name == str(key):
            return value
        if name.startswith(f"{key}/"):
            found = _entry(value, name[len(f"{key}/") :])
            if found is not None:
                return found
    return None


def _largest_difference(expected, run, feed):
    """The largest difference of all outputs and a text that says which one it is."""
    actual = run(**feed)
    largest, reason = 0.0, ""
    for name, value in expected.items():
        difference, found = _difference(keras.ops.convert_to_numpy(value), actual[name])
        if difference > largest:
            largest, reason = difference, f"the output {name!r} with {found}"
    return largest, reason


def _difference(value, actual):
    """The largest difference of two arrays, infinite where they cannot be compared, and a text."""
    if value.shape != actual.shape:
        return float("inf"), f"shape {actual.shape} instead of {value.shape}"
    if value.dtype.kind in "biu":  # what is counted or chosen is right or wrong
        if np.array_equal(value, actual):
            return 0.0, ""
        return float("inf"), f"{int((value != actual).sum())} other values"
    value = value.astype("float64")
    with np.errstate(invalid="ignore"):  # of infinities, which are equal or far from it
        difference = np.abs(value - actual) / np.maximum(np.abs(value), 1)
    difference = np.where(value == actual, 0, difference)
    if np.isnan(difference).any():
        return float("inf"), "values that are not numbers"
    largest = float(difference.max(initial=0))
    return largest, f"a difference of {largest}"
