import keras


def serialize_shared(layer):
    """Serializes a layer that may be part of several others, so that loading gives one layer again.

    Keras marks an object with its `shared_object_id` from its second occurrence on; the mark of
    the first one is lost when its config lies inside of another layer's config. So every occurrence
    carries it.

    Keras reads the marks in `keras.saving.load_model`, and `deserialize_shared` in a
    `sharing_scope`, which `GenerationModel` and `TrainingModel` open. `from_config` of a single
    layer creates a layer for each occurrence.
    """
    config = keras.saving.serialize_keras_object(layer)
    if layer is not None:
        config["shared_object_id"] = id(layer)
    return config
