"""Describes Python functions and objects by JSON values that are equal in every process."""

import base64
import dis
import functools
import hashlib
import inspect
import json
import marshal
import platform
import sys
import types
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

CODE = "code"
"""Key of checksums of byte code. The value is a dict from Python versions to checksums."""

LONG = 64
"""Collections with more items than this are described by a checksum."""

_LIBRARIES = {"keras", "keras_attn", "tensorflow", "jax", "jaxlib", "torch", "numpy", "ml_dtypes"}
"""Packages whose functions and classes are described by their names only."""

# A value that is nested more deeply is described by its type.
_DEEPEST = 8
_VERSION = ".".join(platform.python_version_tuple()[:2])


def described(value: Any, _parents: tuple[Any, ...] = ()) -> Any:
    """Describes a value. The description changes if the behavior of the value changes.

    The description of a function consists of its name, the checksum of its byte code and constants,
    its default arguments, and the numbers, strings, arrays and functions that it uses from
    enclosing functions and from its module. The description excludes file names, line numbers,
    docstrings and memory addresses. It also excludes the values of a `keras.Variable`, because
    training changes them.

    Args:
        value: Any object.

    Returns:
        A value that JSON can represent.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, complex, type(...))):
        return repr(value)
    if isinstance(value, (type, types.ModuleType)):
        return getattr(value, "__qualname__", value.__name__)
    if any(value is each for each in _parents) or len(_parents) > _DEEPEST:
        return type(value).__qualname__
    parents = (*_parents, value)
    if isinstance(value, (dict, types.MappingProxyType)):
        return _shortened({str(key): described(each, parents) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return _shortened([described(each, parents) for each in value])
    if isinstance(value, (set, frozenset)):
        found = [described(each, parents) for each in value]
        return _shortened(sorted(found, key=lambda each: json.dumps(each, sort_keys=True)))
    if isinstance(value, (keras.Variable, keras.KerasTensor)):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, (np.ndarray, np.generic)) or keras.ops.is_tensor(value):
        return _of_array(value)
    if isinstance(value, functools.partial):
        parts = {"arguments": value.args, "keywords": value.keywords}
        return {"partial": described(value.func, parents), **described(parts, parents)}
    if isinstance(value, types.MethodType):
        return {
            "method": described(value.__func__, parents),
            "of": described(value.__self__, parents),
        }
    if isinstance(value, types.FunctionType):
        return _of_function(value, parents)
    for name in ("__wrapped__", "python_function"):  # attributes that jax.jit and tf.function set
        wrapped = inspect.getattr_static(value, name, None)
        if wrapped is not None and callable(getattr(value, name, None)):
            return {
                "class_name": type(value).__qualname__,
                name: described(getattr(value, name), parents),
            }
    return _of_object(value, parents)


def is_of_library(value: Any) -> bool:
    """Returns whether a function or class is described by its name only."""
    root = (getattr(value, "__module__", None) or "builtins").partition(".")[0]
    return root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__")


def functions_of_user(attributes: Any) -> Any:
    """Describes the user's functions, such as a custom activation, in the attributes of an object.

    Args:
        attributes: Dict from names to values, such as `vars(layer)` of a layer of Keras.

    Returns:
        Dict from names to descriptions.
    """
    return {
        name: described(value) for name, value in attributes.items() if _has_function_of_user(value)
    }


def methods_checksum(cls: type, names: Iterable[str]) -> Any:
    """Returns `{Python version: checksum}` of the methods that user-defined classes implement."""
    classes = [each for each in cls.__mro__ if not is_of_library(each)]
    found = [
        described(vars(each)[name])
        for each in classes
        for name in names
        if isinstance(vars(each).get(name), types.FunctionType)
    ]
    return {_VERSION: _checksum(found)}


def described_dump(code: Any) -> Any:
    """Describes the code of a lambda in a Keras configuration, without file and line numbers."""
    try:
        code = marshal.loads(base64.b64decode(code))
    except (ValueError, EOFError, TypeError):
        return code
    return {_VERSION: _checksum(_of_code(code))} if isinstance(code, types.CodeType) else code


def _has_function_of_user(value):
    if isinstance(value, (list, tuple)):
        return any(_has_function_of_user(each) for each in value)
    if isinstance(value, functools.partial):
        return _has_function_of_user(value.func)
    return isinstance(value, types.FunctionType) and not is_of_library(value)


def _of_function(function, parents):
    if is_of_library(function):
        return function.__qualname__
    code = function.__code__
    description = {
        "function": function.__qualname__,
        CODE: {_VERSION: _checksum(_of_code(code))},
    }
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    parts = {
        "defaults": function.__defaults__,
        "keyword_defaults": function.__kwdefaults__,
        "closure": {name: _contents(cell) for name, cell in cells},
        "globals": {
            name: value
            for name in sorted(_global_names(code))
            if (value := function.__globals__.get(name)) is not None and _is_constant(value)
        },
    }
    description |= {name: described(part, parents) for name, part in parts.items() if part}
    return description


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # the enclosing function has not set the variable yet
        return None


def _of_code(code):
    """Returns the parts of byte code that affect results, without file names and line numbers."""
    constants = [
        _of_code(each) if isinstance(each, types.CodeType) else _of_constant(each)
        for each in code.co_consts
    ]
    if _has_docstring(code):
        constants[0] = "None"
    return [code.co_code.hex(), constants, list(code.co_names), code.co_argcount]


def _of_constant(constant):
    """Returns the text of a constant. Sets are sorted, because their order differs by process."""
    if isinstance(constant, frozenset):
        return sorted(map(repr, constant))
    return repr(constant)


def _has_docstring(code):
    flag = getattr(inspect, "CO_HAS_DOCSTRING", None)
    if flag is not None:  # Python 3.14 and later
        return bool(code.co_flags & flag)
    first = code.co_consts[0] if code.co_consts else None
    return isinstance(first, str) and not code.co_name.startswith("<")


def _global_names(code):
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    inner = [_global_names(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return names.union(*inner)


def _is_constant(value):
    """Returns whether a global has a type that programs usually do not modify at run time."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if isinstance(value, types.FunctionType):
        return not is_of_library(value)
    return isinstance(value, (bool, int, float, complex, str, bytes, np.ndarray, np.generic))


def _of_object(value, parents):
    cls = type(value)
    attributes = getattr(value, "__dict__", None)
    is_model = isinstance(value, (keras.Layer, keras.Optimizer, keras.metrics.Metric))
    if is_of_library(cls) or is_model or not isinstance(attributes, dict):
        return getattr(value, "__qualname__", cls.__qualname__)
    return {
        "class_name": cls.__qualname__,
        "attributes": described(attributes, parents),
        CODE: methods_checksum(cls, ("__call__",)),
    }


def _of_array(value):
    try:
        array = np.asarray(keras.ops.convert_to_numpy(value))
    except Exception:  # symbolic or deleted tensors have no value
        return type(value).__qualname__
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return f"{array.dtype} {array.shape} {hashlib.sha256(content).hexdigest()}"


def _shortened(value):
    return _checksum(value) if len(value) > LONG else value


def _checksum(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
