import copy

import keras

from keras_attn.arguments import check_compute_dtype


class Pattern:
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

    def __init__(self, layer):
        self._config = keras.saving.serialize_keras_object(layer)
        self._class = type(layer)
        self.kept_alive = [layer]

    def config(self):
        """The serialized layer."""
        config = copy.deepcopy(self._config)
        _remove(config, "build_config")  # of a built layer: a new one may have other shapes
        _remove(config, "shared_object_id")  # which would make one layer of all that are new
        return config

    def new_layer(self, **arguments):
        """Returns a new layer like it, with a new name.

        Args:
            **arguments: arguments that differ. `dtype` is also the dtype of the parts of the layer.
        """
        config = self.config()
        if "dtype" in arguments:
            config = with_dtype(config, arguments.pop("dtype"))
        config["config"].pop("name", None)
        config["config"] |= arguments
        # The class of a user need not be registered.
        custom_objects = {config["class_name"]: self._class}
        return keras.saving.deserialize_keras_object(config, custom_objects)


def check_pattern_dtype(owner, name, layer):
    """Raises a `ValueError` if a pattern was created with a dtype that its copies will not have.

    Copies have the dtype of `owner`. A pattern without a dtype of its own has the global one.

    Args:
        owner: the layer that makes copies.
        name: str, the argument of `owner` that holds the pattern.
        layer: the pattern.
    """
    default = keras.config.dtype_policy().compute_dtype
    if getattr(layer, "compute_dtype", default) != default:
        check_compute_dtype(owner, **{name: layer})


def with_dtype(config, dtype):
    """Returns a copy of a serialized layer with a dtype for it and the layers in its config."""
    config = copy.deepcopy(config)
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
