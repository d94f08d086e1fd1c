import copy
import types
import warnings
from typing import Any

import keras

from keras_attn._layer.argument_checks import check_compute_dtype


class LayerTemplate:
    """A layer after which others are made.

    An object of its own, because Keras follows dicts that are attributes of a layer, and copying
    such a dict would copy the whole layer.

    Args:
        layer: a Keras layer; its weights do not matter.

    Attributes:
        kept_alive: list of layers. While Keras loads a model it tells layers apart by their
            addresses, so none of those that it has serialized may be freed: another could get its
            address. Here, because as an attribute of a layer they would be saved with it.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self._config = serialize_without_warning(layer)
        self._layer = layer
        self.kept_alive = [layer]

    def config(self) -> dict[str, Any]:
        """The serialized layer."""
        config = copy.deepcopy(self._config)
        _remove(config, "build_config")  # of a built layer: a new one may have other shapes
        _remove(config, "shared_object_id")  # which would make one layer of all that are new
        return config

    def new_layer(self, **arguments: Any) -> Any:
        """Returns a new layer like it, with a new name.

        Args:
            **arguments: arguments that differ. `dtype` is also the dtype of the parts of the layer.
        """
        config = self.config()
        if "dtype" in arguments:
            config = with_dtype(config, arguments.pop("dtype"))
        config["config"].pop("name", None)
        custom_objects = restore_objects(config, self._layer)
        config["config"] |= arguments
        return keras.saving.deserialize_keras_object(config, custom_objects)


def serialize_without_warning(layer: keras.layers.Layer) -> dict[str, Any]:
    """Serializes a layer to copy it, without the warning that a lambda cannot be loaded.

    Raises:
        ValueError: for a layer of Keras with a callable that Keras cannot serialize.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*includes a `lambda`", UserWarning)
        try:
            return keras.saving.serialize_keras_object(layer)
        except TypeError as error:
            raise ValueError(
                "Expected a layer that can be copied by its configuration. Received: "
                f"{type(layer).__name__}, {error} Pass a function (def or lambda) instead of "
                "functools.partial and of objects without get_config."
            ) from error


def restore_objects(config: dict[str, Any], layer: Any) -> dict[str, Any]:
    """Makes a config independent of what is registered for saving.

    Args:
        config: the serialized layer, changed in place: functions take the place of their names.
        layer: the layer.

    Returns:
        Dict from names to the classes of the layer and of objects in its config, and to functions.
    """
    custom_objects = {}
    _restore_objects(config, layer, custom_objects)
    return custom_objects


def _restore_objects(config, layer, custom_objects):
    custom_objects[config["class_name"]] = type(layer)
    for name, value in config["config"].items():
        own = getattr(layer, name, None)
        if isinstance(value, list | tuple) and isinstance(own, list | tuple):
            pairs = zip(value, own, strict=False)
            config["config"][name] = [_restored(*pair, custom_objects) for pair in pairs]
        else:
            config["config"][name] = _restored(value, own, custom_objects)


def _restored(value, own, custom_objects):
    """A value of a config, given the attribute that it was made of."""
    if isinstance(own, types.FunctionType) and isinstance(value, dict):
        custom_objects[own.__name__] = own
        return own
    if isinstance(value, dict) and isinstance(value.get("config"), dict) and own is not None:
        if value.get("class_name") == type(own).__name__:
            _restore_objects(value, own, custom_objects)
    return value


def check_template_dtype(owner: keras.layers.Layer, name: str, layer: keras.layers.Layer) -> None:
    """Raises a `ValueError` if a template was created with a dtype that its copies will not have.

    Copies have the dtype of `owner`. A template without a dtype of its own has the global one.

    Args:
        owner: the layer that makes copies.
        name: str, the argument of `owner` that holds the template.
        layer: the template.
    """
    default = keras.config.dtype_policy().compute_dtype
    if getattr(layer, "compute_dtype", default) != default:
        check_compute_dtype(owner, **{name: layer})


def with_dtype(config: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Returns a copy of a serialized layer with a dtype for it and the layers in its config."""
    config = copy.deepcopy(config)
    if isinstance(dtype, keras.DTypePolicy) and not isinstance(
        dtype, keras.dtype_policies.DTypePolicyMap
    ):
        dtype = dtype.name  # Keras can serialize a layer of a user that was given a name.
    _set_dtype(config, dtype)
    return config


def _set_dtype(config, dtype):
    if isinstance(config, list):
        for each in config:
            _set_dtype(each, dtype)
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
