from typing import Any

import keras


def serialize_shared(layer: object) -> dict[str, Any]:
    """Serializes a layer with an id, so that layers that share it also share the loaded layer.

    Keras adds a `shared_object_id` to the configurations of an object that occurs more than once,
    but not to a first configuration that is nested in the configuration of another layer. Therefore
    this function adds the id to every occurrence.

    Keras uses the ids in `save` and `keras.saving.load_model`. `deserialize_shared` uses the ids in
    a `sharing_scope`; `GenerationModel` and `TrainingModel` open this scope. Without a scope,
    `from_config` of a layer creates one layer per occurrence.

    Args:
        layer: Keras layer, or `None`.

    Returns:
        Dict, the serialized layer.
    """
    config = keras.saving.serialize_keras_object(layer)
    if layer is not None:
        config["shared_object_id"] = id(layer)
    return config
