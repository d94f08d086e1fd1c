import copy

import keras


class Pattern:
    """A layer after which others are made.

    An object of its own, because Keras follows dicts that are attributes of a layer, and copying
    such a dict would copy the whole layer.

    Args:
        layer: a Keras layer; its weights do not matter.
    """

    def __init__(self, layer):
        self._config = keras.saving.serialize_keras_object(layer)
        self._config.pop("build_config", None)  # of a built layer: a new one may have other shapes

    def config(self):
        """The serialized layer."""
        return copy.deepcopy(self._config)

    def new_layer(self, **arguments):
        """A new layer like it, with some arguments changed."""
        config = self.config()
        config["config"] |= arguments
        return keras.saving.deserialize_keras_object(config)
