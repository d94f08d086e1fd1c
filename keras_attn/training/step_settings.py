from typing import Any

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.training.described_code import CODE, is_of_library, methods_checksum

_NOT_IN_A_STEP = {
    *("__init__", "build", "compile", "get_config", "from_config", "compute_output_shape"),
    *("compute_output_spec", "test_step", "predict_step", "compute_metrics"),
}
"""Methods of a layer or model that do not change the result of a training step."""


def step_settings(model: keras.Model) -> dict[str, Any]:
    """Lists the settings that change a training step but belong to no layer, optimizer or loss.

    Settings that only change when values are computed or reported are left out:
    `steps_per_execution`, metrics and `weighted_metrics`. `auto_scale_loss` changes the optimizer.
    The seeds of layers and random generators are variables, which are saved. The number of devices
    is left out, because a training may continue on other devices.

    Args:
        model: Compiled `keras.Model`.

    Returns:
        Dict with the keys `"backend"`, `"floatx"`, `"epsilon"`, `"jit_compile"`, `"run_eagerly"`,
        `"dtype_policies"` and, for classes that a user wrote, `"methods"` with checksums of their
        code.
    """
    layers = flatten_layers([model])
    policies = {each.dtype_policy.name for each in layers if not isinstance(each, keras.Model)}
    classes = {type(each).__qualname__: type(each) for each in layers}
    methods = {
        name: {CODE: methods_checksum(kind, _step_methods(kind))}
        for name, kind in classes.items()
        if not is_of_library(kind)
    }
    return {
        "backend": keras.config.backend(),
        "floatx": keras.config.floatx(),
        "epsilon": keras.config.epsilon(),
        "jit_compile": model.jit_compile,
        "run_eagerly": model.run_eagerly,
        "dtype_policies": sorted(policies),
        **({"methods": methods} if methods else {}),
    }


def _step_methods(kind):
    names = {name for each in kind.__mro__ if not is_of_library(each) for name in vars(each)}
    return sorted(names - _NOT_IN_A_STEP)
