import copy

import keras


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
        """A new layer like it, with some arguments changed, and a name of its own."""
        config = self.config()
        config["config"].pop("name", None)
        config["config"] |= arguments
        # The class of a user need not be registered.
        custom_objects = {config["class_name"]: self._class}
        return keras.saving.deserialize_keras_object(config, custom_objects)


def _remove(config, key):
    """Removes a key from nested dicts and lists."""
    if isinstance(config, dict):
        config.pop(key, None)
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            _remove(part, key)
