"""Fingerprint of a training: model, optimizer, loss and data."""

import hashlib
import json
import re
import warnings
from typing import Any

import keras
import numpy as np

from keras_attn._backend.private_names import loss_weights
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.training._dataset_batches import Batches
from keras_attn.training._nested_arrays import checksum_of_batch

_LEFT_OUT = {
    "module",
    "registered_name",
    "build_config",
    "compile_config",
    "seed",
    "quantization",
    "lora",
}
"""Configuration keys that do not affect the results of a training with given weights, and `lora`,
which is a separate part of the fingerprint."""

_REFERENCES = {"name", "keras_history", "input_layers", "output_layers"}
"""Keys of a configuration whose values contain layer names."""

_LONG = 64
"""Sequences of more numbers are described by a checksum."""


def training_fingerprint(model: keras.Model, batches: Batches | None = None) -> dict[str, Any]:
    """Describes a training by a JSON value, to compare two runs.

    The fingerprint excludes a numeric learning rate, the metrics, the callbacks, and the numbers
    that Keras appends to layer names. It also excludes the seeds and initializers of layers,
    because these only affect the values of variables, and the variables are saved. Functions, such
    as a loss, are described by their names.

    Args:
        model: Compiled `keras.Model`.
        batches: The `batches` of `keras_attn.training.fit`, or `None`. The fingerprint contains the
            SHA-256 of the first batch and of the middle batch of the first epoch, and the number of
            steps per epoch. An object with the method `fingerprint()` describes itself.

    Returns:
        JSON-compatible dict with the keys `"model"`, `"optimizer"`, `"loss"`, `"loss_weights"`,
        `"step"` and, if `batches` is given, `"data"`.
    """
    parts = {
        "model": _model_config(model),
        "optimizer": _optimizer_config(model.optimizer),
        "loss": _loss_config(model.loss),
        "loss_weights": _loss_weights(model),
        "step": _step_settings(model),
    }
    if batches is not None:
        parts["data"] = _data(batches)
    # Convert to values that are equal after a round trip: JSON has no tuples and only string keys.
    return json.loads(json.dumps(parts, default=repr))


def _model_config(model: keras.Model) -> dict[str, object]:
    config: dict[str, object] = {"class_name": type(model).__name__}
    config["config"] = model_config = _config_of(model)
    if model_config is None or "layers" not in model_config:
        # The configuration of a subclassed model may not contain its layers.
        config["layers"] = [
            {"class_name": type(layer).__name__, "config": _config_of(layer)}
            for layer in model.layers
        ]
        variables = model.trainable_variables
        config["weights"] = [[list(weight.shape), weight.dtype] for weight in variables]
    lora = [
        {"rank": layer.lora_rank, "alpha": layer.lora_alpha, "kernels": layer.lora_kernels}
        for layer in flatten_layers([model])
        if isinstance(layer, LowRankAdaptation) and layer.lora_kernels
    ]
    normalized = _normalized(_plain(config))
    return {**normalized, "lora": _plain(lora)} if lora else normalized


def _config_of(layer: keras.layers.Layer | keras.losses.Loss) -> dict[str, Any] | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # of lambdas, which are not saved here
            return layer.get_config()
    except Exception:  # get_config of a subclass can raise any error
        return None


def _optimizer_config(optimizer: keras.Optimizer) -> object:
    try:
        config = keras.optimizers.serialize(optimizer)
    except Exception:  # get_config of a subclass or a schedule can raise any error
        return _optimizer_attributes(optimizer)
    return _without_rates(_plain(config))


def _optimizer_attributes(optimizer: keras.Optimizer) -> dict[str, object]:
    """Describes an optimizer whose `get_config` fails by its attributes."""
    attributes = {
        name: _optimizer_attributes(value) if isinstance(value, keras.Optimizer) else value
        for name, value in vars(optimizer).items()
        if name == "_learning_rate" or not name.startswith("_")
    }
    rate = attributes.pop("_learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) or callable(rate):
        attributes["learning_rate"] = rate
    config = {
        name: _name(value) if callable(value) else _plain(value)
        for name, value in attributes.items()
        if name not in ("name", "built")
        and (value is None or isinstance(value, (bool, int, float, str, dict)) or callable(value))
    }
    return {"class_name": type(optimizer).__name__, "config": config}


def _name(function: object) -> str:
    """Returns the name of a function, or of the class of another callable object."""
    return getattr(function, "__qualname__", type(function).__qualname__)


def _without_rates(value: object) -> object:
    """Returns an optimizer configuration without its name and a numeric learning rate."""
    if isinstance(value, dict):
        return {
            key: _without_rates(item)
            for key, item in value.items()
            if key not in _LEFT_OUT
            and key != "name"
            and not (key == "learning_rate" and not isinstance(item, dict))
        }
    return [_without_rates(item) for item in value] if isinstance(value, list) else value


def _loss_config(loss: object) -> object:
    """Describes the loss or the nested losses that were passed to `model.compile`."""
    if loss is None or isinstance(loss, str):
        return loss
    if isinstance(loss, dict):
        return {str(key): _loss_config(item) for key, item in loss.items()}
    if isinstance(loss, (list, tuple)):
        return [_loss_config(item) for item in loss]
    if isinstance(loss, keras.losses.Loss):
        config = _config_of(loss) or {}
        config = {key: value for key, value in config.items() if key != "name"}
        return {"class_name": type(loss).__name__, "config": _plain(config)}
    return _name(loss)


def _loss_weights(model: keras.Model) -> object:
    """Returns the `loss_weights` of `model.compile`, or `None` if all are 1."""
    weights = loss_weights(model)
    return None if all(weight == 1 for weight in keras.tree.flatten(weights)) else _plain(weights)


def _step_settings(model: keras.Model) -> dict[str, object]:
    """Returns the step settings that belong to no layer, optimizer or loss.

    Settings that only change when values are computed or reported are left out:
    `steps_per_execution`, metrics and `weighted_metrics`. `auto_scale_loss` changes the optimizer.
    The number of devices is left out, because a training may continue on other devices.
    """
    layers = [layer for layer in flatten_layers([model]) if not isinstance(layer, keras.Model)]
    return {
        "backend": keras.config.backend(),
        "floatx": keras.config.floatx(),
        "epsilon": keras.config.epsilon(),
        "jit_compile": model.jit_compile,
        "run_eagerly": model.run_eagerly,
        "dtype_policies": sorted({layer.dtype_policy.name for layer in layers}),
    }


def _data(batches: Batches) -> dict[str, object]:
    fingerprint = getattr(batches, "fingerprint", None)
    if fingerprint is not None:
        return fingerprint()
    steps = batches.steps_per_epoch
    return {
        "steps_per_epoch": steps,
        "batches": {str(step): _checksum_of_batch(batches, step) for step in (0, steps // 2)},
    }


def _checksum_of_batch(batches: Any, step: int) -> str | None:
    stream = batches.stream(step) if hasattr(batches, "stream") else batches.dataset(step)
    for batch in stream:
        return checksum_of_batch(batch)
    return None  # fewer batches than this step


def _plain(value: Any) -> object:
    """Converts a configuration to dicts, lists and JSON values, with checksums of arrays."""
    if isinstance(value, dict):
        if _is_lambda(value):
            return {}
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > _LONG and all(isinstance(item, (int, float)) for item in value):
            return _checksum(np.asarray(value))
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _checksum(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    try:
        return _plain(keras.saving.serialize_keras_object(value))
    except Exception:  # get_config of an object can raise any error
        return type(value).__name__


def _is_lambda(config: dict[str, object]) -> bool:
    """Returns whether a configuration contains the byte code of a lambda."""
    code = config.get("value") if config.keys() == {"value"} else None
    is_tuple = isinstance(code, (list, tuple)) and len(code) == 3
    return is_tuple or config.keys() == {"code", "defaults", "closure"}


def _checksum(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def _normalized(config: object) -> Any:
    """Renames layers with generated names in a configuration, so that all runs use equal names."""
    names: dict[str, str] = {}
    objects: dict[object, int] = {}
    _collect_names(config, names)

    def walk(key: str | None, value: Any) -> object:
        if isinstance(value, dict):
            if value.get("class_name") == "__keras_tensor__":
                # The shape of the tensor follows from the layers.
                value = {"keras_history": value["config"]["keras_history"]}
            return {
                name: walk(key if key in _REFERENCES else name, item)
                for name, item in value.items()
                if name not in _LEFT_OUT and "initializer" not in name
            }
        if isinstance(value, list):
            return [walk(key, item) for item in value]
        if key == "shared_object_id":
            return objects.setdefault(value, len(objects))
        if key in _REFERENCES and isinstance(value, str):
            return names.get(value, value)
        return value

    return walk(None, config)


def _collect_names(value: object, names: dict[str, str]) -> None:
    """Collects layer names that Keras generated, each with a new name that is numbered from 0."""
    if isinstance(value, dict):
        name = value["config"].get("name") if isinstance(value.get("config"), dict) else None
        if isinstance(name, str) and isinstance(value.get("class_name"), str):
            kind = _snake_case(value["class_name"])
            base = re.sub(r"_\d+$", "", name)
            if (base == kind or base.endswith(f"_{kind}")) and name not in names:
                number = sum(new.rsplit("#", 1)[0] == base for new in names.values())
                names[name] = f"{base}#{number}"
        for item in value.values():
            _collect_names(item, names)
    elif isinstance(value, list):
        for item in value:
            _collect_names(item, names)


def _snake_case(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
