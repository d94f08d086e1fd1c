import functools
import types
from typing import Any


def plain_function(function: Any) -> Any:
    """Returns a callable that Keras cannot serialize, such as a `functools.partial`, as a function.

    Keras serializes functions by their names, and objects by `get_config`. Layers are copied by
    their configuration, so an activation that has neither could not be part of a stack.

    Args:
        function: an activation, an initializer, or anything else that `keras` has looked up.

    Returns:
        `function` itself if it is a function, an object with `get_config`, or not callable.
        Otherwise a function with a name that no function of Keras has, so that a saved model does
        not load with another function: pass `custom_objects` with this name to load it.
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
