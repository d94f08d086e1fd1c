from typing import Any

import keras


def serialize_shared(layer: object) -> dict[str, Any]:
    """Serializes a layer that several layers may share, so that loading restores one shared layer.

    Keras adds a `shared_object_id` to an object from its second occurrence on. The id of the first
    occurrence is lost if its config is nested in the config of another layer, so this function adds
    it to every occurrence.

    Keras uses the ids in `save` and `keras.saving.load_model`. `deserialize_shared` uses them in a
    `sharing_scope`, which `GenerationModel` and `TrainingModel` open. `from_config` of a single
    layer creates one layer per occurrence.

    Args:
        layer: Keras layer, or `None`.

    Returns:
        Dict, the serialized layer.
    """
    config = keras.saving.serialize_keras_object(layer)
    if layer is not None:
        config["shared_object_id"] = id(layer)
    return config
