from typing import Any

import keras


def serialize_shared(layer: object) -> dict[str, Any]:
    """Serializes a layer that may be part of several others, so that loading gives one layer again.

    Keras marks an object with its `shared_object_id` from its second occurrence on; the mark of
    the first one is lost when its config lies inside of another layer's config. So every occurrence
    carries it.

    The marks count in `save` and `keras.saving.load_model`. `keras.models.clone_model`, and
    `from_config` outside of them, make a layer of each occurrence.
    """
    config = keras.saving.serialize_keras_object(layer)
    if layer is not None:
        config["shared_object_id"] = id(layer)
    return config
