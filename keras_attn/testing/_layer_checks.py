import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import tree

from keras_attn._models.model_inputs import input_tensor
from keras_attn.testing._arrays import (
    assert_close,
    assert_identical,
    dtype_policy,
    fill_masked_with_noise,
    randomize,
    require,
    requirement,
    to_numpy,
)

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_layer(
    make_layer: Callable[[], keras.layers.Layer],
    inputs: Mapping[str, Any],
    masked: Mapping[str, str] | None = None,
    mixed_dtype: str = "float16",
    without_gradient: Collection[str] = (),
) -> None:
    """Checks requirements that apply to every Keras layer.

    - `get_config` contains all arguments, and `from_config` creates an equal layer.
    - In a functional model, shapes and dtypes are the same as in an eager call, and the model
      returns the same results after `save` and `load_model`.
    - Masked positions do not affect the outputs.
    - With the policy "mixed_float16", the outputs are close to the float32 outputs, and the weights
      are float32.
    - One step of `fit` changes every weight, and no weight becomes NaN.

    Args:
        make_layer: Function without arguments that returns a new layer.
        inputs: Dict from the names of call arguments to their values: NumPy arrays, or nested lists
            or dicts of NumPy arrays.
        masked: Dict from the names of arguments that are masked to the names of their masks. Both
            names are keys of `inputs`. A masked argument has the shape `(batch, time, features)`,
            its mask has the shape `(batch, time)`. Defaults to `None`: no masks.
        mixed_dtype: String, dtype of float outputs with the policy "mixed_float16". Defaults to
            `"float16"`.
        without_gradient: Names of weights that cannot affect the outputs. `"key_bias"` is always
            included: a softmax does not depend on the bias of the keys, so the gradient of this
            bias is 0 except for rounding errors. Defaults to `()`.

    Raises:
        AssertionError: If a requirement is not satisfied. The message names the requirement.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BahdanauAttention
    >>> from keras_attn.testing import check_layer
    >>> inputs = {
    ...     "query": np.ones((2, 3, 4), "float32"),
    ...     "value": np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32"),
    ...     "attention_mask": np.arange(5) < np.array([[3], [5]]),
    ... }
    >>> check_layer(lambda: BahdanauAttention(8), inputs, masked={"value": "attention_mask"})
    """
    layer = make_layer()
    layer(**inputs)
    randomize(layer)
    outputs = to_numpy(layer(**inputs))
    _check_config(layer, inputs, outputs)
    _check_functional_model(layer, inputs, outputs)
    for name, mask_name in (masked or {}).items():
        noisy = {**inputs, name: fill_masked_with_noise(inputs[name], inputs[mask_name])}
        assert_identical(
            to_numpy(layer(**noisy)),
            outputs,
            f"Expected outputs that do not depend on {name} where {mask_name} is False.",
        )
    _check_mixed_precision(make_layer, layer.get_weights(), inputs, outputs, mixed_dtype)
    _check_training(make_layer, inputs, without_gradient)


def _check_config(layer: keras.layers.Layer, inputs: Mapping[str, object], outputs: object) -> None:
    as_text = _config_text(layer)
    config = layer.get_config()
    require(config.get("name") == layer.name, "Expected the name of the layer in `get_config`.")
    arguments = inspect.signature(type(layer).__init__).parameters.values()
    named = {argument.name for argument in arguments if argument.kind in NAMED}
    missing = sorted(named - {"self"} - set(config))
    require(not missing, f"Expected all arguments in `get_config`. Missing: {missing}.")
    copy: Any = None
    with requirement("Expected `from_config` to make a layer from `get_config`."):
        for _ in range(2):  # `from_config` must not change the configuration
            copy = type(layer).from_config(layer.get_config())
    for text in (_config_text(layer), _config_text(copy)):
        require(
            text == as_text,
            "Expected `from_config` to make a layer with an equal configuration, and to leave the "
            f"configuration unchanged. Received: {text}, instead of {as_text}.",
        )
    copy(**inputs)
    copy.set_weights(layer.get_weights())
    message = (
        "Expected a layer made by `from_config` to compute the same outputs with the same weights."
    )
    assert_close(to_numpy(copy(**inputs)), outputs, 1e-6, message)


def _config_text(layer: keras.layers.Layer) -> str:
    """Returns the configuration as text, without the ids of shared objects."""

    def settings(config: object) -> object:
        if isinstance(config, dict):
            items = config.items()
            return {name: settings(value) for name, value in items if name != "shared_object_id"}
        return [settings(item) for item in config] if isinstance(config, list) else config

    with requirement("Expected `get_config` to return values that JSON can store."):
        return json.dumps(settings(layer.get_config()), sort_keys=True)


def _check_functional_model(
    layer: keras.layers.Layer, inputs: Mapping[str, object], outputs: object
) -> None:
    with requirement("Expected a layer that can be called with symbolic inputs."):
        model = _functional_model(layer, inputs)
    for symbolic, eager in zip(tree.flatten(model.output), tree.flatten(outputs), strict=True):
        fits = len(symbolic.shape) == eager.ndim and all(
            expected in (None, size)
            for expected, size in zip(symbolic.shape, eager.shape, strict=True)
        )
        require(
            fits,
            "Expected symbolic outputs with the shapes of eager outputs, or None where a size is "
            f"unknown. Received: {symbolic.shape}, instead of {eager.shape}. Correct "
            "`compute_output_shape` or `compute_output_spec`.",
        )
        require(
            symbolic.dtype == str(eager.dtype),
            "Expected symbolic outputs with the dtypes of eager outputs. Received: "
            f"{symbolic.dtype}, instead of {eager.dtype}.",
        )
    outputs_of_known_shape = layer(**tree.map_structure(_input_of_known_shape, inputs))
    shapes = [tuple(symbolic.shape) for symbolic in tree.flatten(outputs_of_known_shape)]
    expected = [eager.shape for eager in tree.flatten(outputs)]
    require(
        shapes == expected,
        "Expected symbolic outputs of known shapes for inputs of known shapes. Received: "
        f"{shapes}, instead of {expected}.",
    )
    loaded: Any = None
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.keras")
        with requirement("Expected a model with the layer to be saved and loaded."):
            model.save(path)
            loaded = keras.models.load_model(path)
    received = to_numpy(loaded(tree.flatten(inputs)))
    message = "Expected a saved and loaded model to return the same outputs."
    assert_close(tree.flatten(received), tree.flatten(outputs), 1e-6, message)


def _functional_model(layer: keras.layers.Layer, inputs: Mapping[str, object]) -> keras.Model:
    symbolic = tree.map_structure(_symbolic_input, inputs)
    return keras.Model(tree.flatten(symbolic), layer(**symbolic))


def _input_of_known_shape(array: np.ndarray) -> keras.KerasTensor:
    return input_tensor(None, array.shape, str(array.dtype))


def _symbolic_input(array: np.ndarray) -> keras.KerasTensor:
    """Returns a symbolic input. All sizes except the features of float inputs are unknown."""
    free = array.ndim - (array.dtype.kind == "f")
    return input_tensor(None, (None,) + (None,) * (free - 1) + array.shape[free:], str(array.dtype))


def _check_mixed_precision(
    make_layer: Callable[[], keras.layers.Layer],
    weights: list[np.ndarray],
    inputs: Mapping[str, object],
    outputs: object,
    mixed_dtype: str,
) -> None:
    policy = 'with the policy "mixed_float16"'
    with dtype_policy("mixed_float16"):
        layer = make_layer()
        layer(**inputs)
    layer.set_weights(weights)
    for half, full in zip(
        tree.flatten(to_numpy(layer(**inputs))), tree.flatten(outputs), strict=True
    ):
        if full.dtype.kind == "f":
            require(
                str(half.dtype) == mixed_dtype,
                f"Expected outputs of dtype {mixed_dtype} {policy}. Received: {half.dtype}.",
            )
            message = f"Expected outputs {policy} that are close to the float32 outputs."
            assert_close(half, full, 0.02, message)
    wrong = [weight.path for weight in layer.weights if weight.dtype != "float32"]
    require(not wrong, f"Expected float32 weights {policy}. Received: other dtypes for {wrong}.")


def _check_training(
    make_layer: Callable[[], keras.layers.Layer],
    inputs: Mapping[str, object],
    without_gradient: Collection[str],
) -> None:
    """Runs one compiled step of `fit`, and checks that all weights changed."""
    layer = make_layer()
    model = _functional_model(layer, inputs)
    if not layer.trainable_weights:
        return
    randomize(layer)
    floats = [output for output in tree.flatten(model.output) if "float" in output.dtype]
    model = keras.Model(model.input, floats)
    model.compile(keras.optimizers.SGD(1.0), loss=["mse"] * len(floats))
    arrays = tree.flatten(inputs)
    outputs = tree.flatten(to_numpy(model(arrays)))
    generator = np.random.default_rng(0)
    targets = [generator.normal(size=output.shape) for output in outputs]
    before = {weight.path: to_numpy(weight) for weight in layer.trainable_weights}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gradients do not exist")  # checked below
        fit: Any = model.fit  # The annotations in Keras are incomplete.
        history = fit(arrays, targets, batch_size=len(targets[0]), verbose=0)
    loss = history.history["loss"][0]
    require(np.isfinite(loss), f"Expected a finite loss in training. Received: {loss}.")
    for weight in layer.trainable_weights:
        after = to_numpy(weight)
        require(
            np.all(np.isfinite(after)),
            f"Expected a finite gradient for every weight. Received: NaN or inf for {weight.path}.",
        )
        require(
            weight.name in ("key_bias", *without_gradient) or np.any(after != before[weight.path]),
            f"Expected a gradient for every weight. Received: none for {weight.path}.",
        )
