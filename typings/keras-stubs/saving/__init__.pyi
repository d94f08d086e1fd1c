# Only the functions that keras_attn uses. As inferred from Keras' code, a serialized object may be
# a string, a number or a list too; a serialized layer is a dict.
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, TypeVar

from keras.src.saving.object_registration import CustomObjectScope as custom_object_scope

T = TypeVar("T")

def deserialize_keras_object(
    config: Any, custom_objects: Mapping[str, Any] | None = None, safe_mode: bool = True
) -> Any: ...
def get_custom_objects() -> dict[str, Any]: ...
def get_registered_name(obj: object) -> str: ...
def get_registered_object(
    name: str,
    custom_objects: Mapping[str, Any] | None = None,
    module_objects: Mapping[str, Any] | None = None,
) -> Any: ...
def load_model(
    filepath: str | PathLike[str],
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any: ...
def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[T], T]: ...
def serialize_keras_object(obj: object) -> dict[str, Any]: ...

__all__ = [
    "custom_object_scope",
    "deserialize_keras_object",
    "get_custom_objects",
    "get_registered_name",
    "get_registered_object",
    "load_model",
    "register_keras_serializable",
    "serialize_keras_object",
]
