import functools
import types
from typing import Any


def plain_function(function: Any) -> Any:
    """Converts a callable to a function if Keras cannot serialize the callable.

    Keras only serializes functions (by name) and objects with `get_config`. Stacks such as
    `TransformerStack` copy layers by their configuration, so they do not support other callables.

    Args:
        function: Result of a function such as `keras.activations.get` or `keras.initializers.get`.

    Returns:
        `function` if it is a function, has `get_config`, or is not callable. Otherwise a new
        function. Its name is different from all names of Keras functions, so that a saved model is
        never loaded with a wrong function. To load the model, pass `custom_objects` that contain
        this name.
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
