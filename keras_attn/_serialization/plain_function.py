import functools
import types
from typing import Any


def plain_function(function: Any) -> Any:
    """Converts a callable that Keras cannot serialize to a function.

    Keras serializes functions by name, and objects by `get_config`. Layers are copied by their
    configuration, so other callables could not be part of a stack.

    Args:
        function: Activation, initializer, or another object that `keras` has looked up.

    Returns:
        `function` itself if it is a function, an object with `get_config`, or not callable.
        Otherwise a function whose name is not the name of any Keras function, so that a saved model
        is not loaded with a different function. Load it with `custom_objects` that contain this
        name.
    """
    is_serializable = isinstance(function, types.FunctionType) or hasattr(function, "get_config")
    if is_serializable or isinstance(function, type) or not callable(function):
        return function

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    call.__name__ = call.__qualname__ = f"{type(function).__name__}_of_{name}"
    functools.update_wrapper(call, function, assigned=(), updated=())  # sets __wrapped__
    return call
