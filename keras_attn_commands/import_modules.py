"""The option `--import` of commands that load a model: modules with the user's own layers."""

import argparse
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from keras_attn_commands.existing_paths import require_file

SUFFIX = ".py"


def add_import_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--import` to the parser of a command that loads a model."""
    parser.add_argument(
        "--import",
        metavar="MODULE",
        dest="imports",
        action="append",
        default=[],
        help="Python file, or name of a module, with your own layers. It is imported, and so runs, "
        "before the model is loaded. Can be repeated",
    )


def check_imports(modules: Sequence[str]) -> None:
    """Checks that the files of `--import` exist, before slow imports.

    Args:
        modules: Paths of Python files, and names of modules.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a path is not that of a Python file.
    """
    for module in modules:
        if _is_path(module):
            require_file("--import", Path(module))
            if not module.endswith(SUFFIX):
                raise ValueError(
                    f"Expected a path that ends with {SUFFIX}, or the name of a module. Received: "
                    f"--import {module}. Pass the Python file that contains your layers."
                )


def import_modules(modules: Sequence[str]) -> None:
    """Imports modules, so that Keras can load the layers that they register.

    As in `python FILE` and `python -m MODULE`, a file can import files beside it, and a module can
    be in the working directory. Installed modules of the same name have precedence.

    Args:
        modules: Paths of Python files, and names of modules.

    Raises:
        ValueError: If a module does not exist or raises an error.
    """
    for module in modules:
        try:
            if _is_path(module):
                _import_file(Path(module))
            else:
                _add_to_search_path(Path.cwd())
                importlib.import_module(module)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and _is_part(error.name, module):
                raise ValueError(
                    "Expected the name of an installed module or of one in the working directory, "
                    f"or the path of a Python file. Received: --import {module}, which was not "
                    f"found. Check the name, or pass the path of the file with {SUFFIX}."
                ) from error
            raise ValueError(
                f"Expected a module that can be imported. Received: --import {module}, which "
                f"raised {type(error).__name__}{_message(error)}{_place(error)}. Correct the "
                "module."
            ) from error


def _is_path(module: str) -> bool:
    separators = [each for each in (os.sep, os.altsep) if each]
    return module.endswith(SUFFIX) or any(each in module for each in separators)


def _import_file(path: Path) -> ModuleType:
    """Imports a file by its name. Keras finds classes that are not registered by this name."""
    path = path.resolve()
    imported = sys.modules.get(path.stem)
    if imported is not None and getattr(imported, "__file__", None) == str(path):
        return imported
    name = path.stem if imported is None else f"{path.stem}_of_{path.parent.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the path ends with .py
    _add_to_search_path(path.parent)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _add_to_search_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _is_part(missing: str | None, module: str) -> bool:
    """Returns whether a missing module is the module of the option, or a package of it."""
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _message(error: BaseException) -> str:
    return f": {error}" if str(error) else ""


def _place(error: BaseException) -> str:
    """Returns the last line of the imported file that led to an error, or an empty string."""
    importing = (__file__, importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in importing and not frame.filename.startswith("<frozen")
    ]
    if not frames:  # a syntax error, whose message contains the line
        return ""
    line = [frame.lineno for frame in frames if frame.filename == frames[0].filename][-1]
    return f" in line {line} of {frames[0].filename}"
