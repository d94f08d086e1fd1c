from typing import Any

import keras


def serialize_shared(layer: object) -> dict[str, Any]:
    """Serializes a layer that several layers may share, so that it is still shared when loaded.

    Keras adds a `shared_object_id` to the configuration of an object that occurs again. If the
    first configuration is nested in the configuration of another layer, the id is missing there.
    Therefore this function adds the id to every occurrence.

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
