import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras

_objects: contextvars.ContextVar[dict[Any, Any] | None] = contextvars.ContextVar(
    "shared_objects", default=None
)


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


@contextlib.contextmanager
def sharing_scope() -> Iterator[None]:
    """Context in which `deserialize_shared` returns the same layer for the same `shared_object_id`.

    Keras opens a similar scope in `load_model`, but not in `keras.models.model_from_json`,
    `clone_model` and `from_config`. A nested scope uses the layers of the outer scope.
    """
    if _objects.get() is not None:
        yield
        return
    token = _objects.set({})
    try:
        yield
    finally:
        _objects.reset(token)


def deserialize_shared(config: dict[str, Any]) -> Any:
    """Creates a layer from a configuration that `serialize_shared` returned.

    Args:
        config: Dict that `serialize_shared` returned, or `None`.

    Returns:
        The layer. In a `sharing_scope`, configurations with the same `shared_object_id` result in
        the same layer.
    """
    objects = _objects.get()
    key = config.get("shared_object_id") if isinstance(config, dict) else None
    if objects is not None and key in objects:
        return objects[key]
    layer = keras.saving.deserialize_keras_object(config)
    if objects is not None and key is not None:
        objects[key] = layer
    return layer
