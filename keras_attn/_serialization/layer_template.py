import copy
import types
import warnings
from typing import Any

import keras

from keras_attn._layer.argument_checks import check_compute_dtype
from keras_attn._layer.low_rank_settings import low_rank_settings


class LayerTemplate:
    """Creates layers with the configuration of a template.

    A layer with copies has a `LayerTemplate` as attribute, instead of a dict with the
    configuration. Keras tracks dicts that are attributes of layers, and a copy of a tracked dict
    copies the whole layer.

    Args:
        layer: Keras layer, the template. Its weights are ignored.

    Raises:
        ValueError: If the layer has low-rank updates (LoRA), or Keras cannot serialize it.

    Attributes:
        kept_alive: List of layers that must not be freed. When Keras loads a model, it identifies
            layers by their memory addresses. If a serialized layer were freed, a new layer could
            get the same address. The list is stored here and not in a layer, because Keras would
            save the list with the layer.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        settings = low_rank_settings(layer)
        if settings:
            raise ValueError(
                "Expected a layer without low-rank updates, because its copies have new weights. "
                f"Received: {type(layer).__name__} {layer.name!r} with LoRA in "
                f"{sorted(settings)}. Call enable_lora on the layer or model with the copies."
            )
        self._config = serialize_without_warning(layer)
        self._layer = layer
        self.kept_alive = [layer]

    def config(self) -> dict[str, Any]:
        """Returns the serialized layer."""
        config = copy.deepcopy(self._config)
        _remove(config, "build_config")  # new layers may have different shapes
        _remove(config, "shared_object_id")  # else all new layers would be loaded as one layer
        return config

    def new_layer(self, **arguments: Any) -> Any:
        """Creates a layer with the same configuration and a new name.

        Args:
            **arguments: Arguments that replace the arguments of the template. `dtype` also applies
                to sublayers.
        """
        config = self.config()
        if "dtype" in arguments:
            config = with_dtype(config, arguments.pop("dtype"))
        config["config"].pop("name", None)
        custom_objects = restore_objects(config, self._layer)
        config["config"] |= arguments
        return keras.saving.deserialize_keras_object(config, custom_objects)


def serialize_without_warning(layer: keras.layers.Layer) -> dict[str, Any]:
    """Serializes a layer without the warning of Keras that a lambda cannot be loaded.

    Raises:
        ValueError: If Keras cannot serialize a callable of the layer.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*includes a `lambda`", UserWarning)
        try:
            return keras.saving.serialize_keras_object(layer)
        except TypeError as error:
            raise ValueError(
                "Expected a layer that can be copied by its configuration. Received: "
                f"{type(layer).__name__}, {error} Pass a function (def or lambda) instead of a "
                "functools.partial or of an object without get_config."
            ) from error


def restore_objects(config: dict[str, Any], layer: Any) -> dict[str, Any]:
    """Collects the custom objects that are required to deserialize a configuration.

    Args:
        config: Dict, the serialized layer. It is modified in place: the names of functions are
            replaced by the functions.
        layer: The layer that was serialized.

    Returns:
        Dict for `custom_objects`: the names and values of the functions, and of the classes of the
        layer and its sublayers.
    """
    custom_objects = {}
    _restore_objects(config, layer, custom_objects)
    return custom_objects


def _restore_objects(config, layer, custom_objects):
    custom_objects[config["class_name"]] = type(layer)
    for name, value in config["config"].items():
        default = getattr(layer, name, None)
        if isinstance(value, list | tuple) and isinstance(default, list | tuple):
            pairs = zip(value, default, strict=False)
            config["config"][name] = [_restored(*pair, custom_objects) for pair in pairs]
        else:
            config["config"][name] = _restored(value, default, custom_objects)


def _restored(value, default, custom_objects):
    """Restores a value of a configuration. `own` is the attribute that was serialized."""
    if isinstance(default, types.FunctionType) and isinstance(value, dict):
        custom_objects[default.__name__] = default
        return default
    if isinstance(value, dict) and isinstance(value.get("config"), dict) and default is not None:
        if value.get("class_name") == type(default).__name__:
            _restore_objects(value, default, custom_objects)
    return value


def check_template_dtype(owner: keras.layers.Layer, name: str, layer: keras.layers.Layer) -> None:
    """Raises a `ValueError` if a template has an explicit dtype that its copies will not have.

    The copies have the dtype of `owner`. A template with the global dtype is accepted, because the
    user probably did not set its dtype.

    Args:
        owner: Layer that creates the copies.
        name: String, name of the template in the arguments of `owner`.
        layer: The template.
    """
    default = keras.config.dtype_policy().compute_dtype
    if getattr(layer, "compute_dtype", default) != default:
        check_compute_dtype(owner, **{name: layer})


def with_dtype(config: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Returns a copy of a serialized layer in which the layer and its sublayers have `dtype`."""
    config = copy.deepcopy(config)
    if isinstance(dtype, keras.DTypePolicy) and not isinstance(
        dtype, keras.dtype_policies.DTypePolicyMap
    ):
        dtype = dtype.name  # Keras can always serialize a string
    _set_dtype(config, dtype)
    return config


def _set_dtype(config, dtype):
    if isinstance(config, list):
        for item in config:
            _set_dtype(item, dtype)
    elif isinstance(config, dict) and isinstance(config.get("config"), dict):
        if "dtype" in config["config"]:
            config["config"]["dtype"] = dtype
        for name, value in config["config"].items():
            if name != "dtype":
                _set_dtype(value, dtype)


def _remove(config, key):
    """Removes a key from nested dicts and lists."""
    if isinstance(config, dict):
        config.pop(key, None)
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            _remove(part, key)
