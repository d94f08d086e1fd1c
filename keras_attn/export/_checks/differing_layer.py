"""Search for the layer at which an exported model begins to differ from Keras."""

import collections
import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import keras
import numpy as np

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export._passes import lower_constants
from keras_attn.export._passes.clean import clean
from keras_attn.export._trace.conversion import convert
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._trace.portable_copy import make_traceable
from keras_attn.export._trace.trace_function import trace
from keras_attn.export._types import Arrays, Axes

if TYPE_CHECKING:
    import tensorflow as tf


Call: TypeAlias = "tuple[keras.Operation, int, tf.Tensor]"
"""Layer, index of the output of this layer, output."""


def differing_layer(
    function: FunctionalFunction, feed: Arrays, differs: Callable[[np.ndarray, np.ndarray], bool]
) -> str:
    """Finds the first layer whose output differs between Keras and ONNX.

    The function converts a second model that returns the outputs of all layers, except layers
    inside of loops. It runs this model once for each output.

    Args:
        function: `FunctionalFunction`.
        feed: Dict of arrays for which the results differ.
        differs: Function of two arrays that returns whether they differ too much.

    Returns:
        String such as `"the layer 'dense' (Dense)"`; empty if no layer was found.
    """
    # The result is part of an error message. An error during the search must not hide this message.
    with contextlib.suppress(Exception):
        return _differing_layer(function.copied(), feed, differs)
    return ""


def _differing_layer(
    function: FunctionalFunction, feed: Arrays, differs: Callable[[np.ndarray, np.ndarray], bool]
) -> str:
    import onnx
    import onnxruntime
    import tensorflow as tf

    model, signature = function.model, function.signature
    # Keras runs eagerly, because `TimeDistributed` returns wrong results in a graph.
    with _recorded_calls(model) as calls:
        function(*(tf.constant(feed[spec.name]) for spec in signature))
    expected = {(id(layer), number): tensor for layer, number, tensor in calls}
    eager_counts = _counts(calls)
    make_traceable(model)
    converted: dict[tuple[int, int], tuple[keras.Operation, tf.Tensor]] = {}
    traced_counts: dict[int, int] = {}
    dimensions = {spec.name: _names(spec.name, spec.shape) for spec in signature}

    def recorded(*tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
        converted.clear()
        with _recorded_calls(model) as calls:
            function(*tensors)
        traced_counts.update(_counts(calls))
        seen = {id(tensor) for tensor in tensors}
        graph = tf.compat.v1.get_default_graph()
        for layer, number, tensor in calls:
            # `vectorized_map` leaves unused nodes of its loop body in the same graph.
            is_result = tensor.graph is graph and "loop_body/" not in tensor.name
            has_type = tensor.shape.rank is not None and tensor.dtype != tf.string
            if is_result and has_type and id(tensor) not in seen:
                seen.add(id(tensor))
                converted[id(layer), number] = layer, tensor
        outputs = {str(number): tensor for number, (_, tensor) in enumerate(converted.values())}
        dimensions.update({name: _names(name, value.shape) for name, value in outputs.items()})
        return outputs

    options = onnxruntime.RunOptions()
    options.only_execute_path_to_fetches = True
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        outputs = convert(trace(recorded, signature, model.variables))
        clean(outputs, dimensions, {})
        lower_constants(outputs)
        onnx.save(outputs, path, save_as_external_data=True, location="weights")
        session = onnxruntime.InferenceSession(
            str(path), session_options, providers=["CPUExecutionProvider"]
        )
        used = {value.name for value in session.get_inputs()}
        feed = {name: value for name, value in feed.items() if name in used}
        for number, (key, (layer, _)) in enumerate(converted.items()):
            # A loop over time calls its layer once in a graph, but once a step in eager mode. Then
            # the outputs cannot be paired.
            if eager_counts[id(layer)] != traced_counts[id(layer)]:
                continue
            try:
                (output,) = session.run([str(number)], feed, options)
            except Exception:  # exceptions of ONNX Runtime have no public base class
                return _described(layer)
            if differs(keras.ops.convert_to_numpy(expected[key]), np.asarray(output)):
                return _described(layer)
    return ""


def _counts(calls: Iterable[Call]) -> collections.Counter[int]:
    """Returns the number of output tensors of each layer."""
    return collections.Counter(id(layer) for layer, _, _ in calls)


def _described(layer: keras.Operation) -> str:
    return f"the layer {layer.name!r} ({type(layer).__name__})"


def _names(name: str, shape: Iterable[int | None]) -> Axes:
    return tuple(f"{name}_{axis}" if size is None else int(size) for axis, size in enumerate(shape))


@contextlib.contextmanager
def _recorded_calls(model: keras.Model) -> Iterator[list[Call]]:
    """Records the outputs of all layers that are called inside the block.

    Yields:
        List of `Call`s, inner layers before outer layers.
    """
    import tensorflow as tf

    calls, counts = [], {}

    def record(
        layer: keras.Operation, run: Callable[..., object], *args: object, **kwargs: object
    ) -> object:
        results = run(*args, **kwargs)
        for tensor in keras.tree.flatten(results):
            if tf.is_tensor(tensor):
                number = counts[id(layer)] = counts.get(id(layer), -1) + 1
                calls.append((layer, number, tensor))
        return results

    layers = flatten_layers([model])
    operations = [item for layer in layers for item in getattr(layer, "operations", [])]
    replaced = {id(item): item for item in [*layers, *operations] if item is not model}.values()
    before = [vars(layer).get("call") for layer in replaced]
    for layer in replaced:
        layer.call = functools.wraps(layer.call)(functools.partial(record, layer, layer.call))
    try:
        yield calls
    finally:
        for layer, call in zip(replaced, before, strict=True):
            if call is None:
                del layer.call
            else:
                layer.call = call
