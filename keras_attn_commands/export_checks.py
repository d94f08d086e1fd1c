"""Checks of `keras-attn export` before it imports Keras."""

import argparse
import zipfile
from pathlib import Path
from typing import Any

from keras_attn_checks.installed import require_originals
from keras_attn_checks.output_path import ONNX_BEGINNING, check_output_path
from keras_attn_checks.run_folder import read_run, require_kind, require_part
from keras_attn_checks.search_names import SEARCH_ARGUMENTS, unknown_arguments_problem
from keras_attn_checks.separate_paths import require_separate_paths
from keras_attn_commands.existing_paths import require_file, require_folder
from keras_attn_commands.export_forecaster import refuse_search_options

FILES = ("onnx-text", "litert", "litert-steps")
"""Formats whose export is always a single file. The format onnx writes a directory for a model of
more than 2 GB."""


def check_export(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Checks the paths and the options of the command.

    Args:
        arguments: Arguments of the command.

    Returns:
        Dict of arrays, the inputs of `--sample`, or `None` without this option.

    Raises:
        OSError: If a path does not exist or must not be replaced.
        ValueError: If an option does not apply to the model, or a file has the wrong format.
        ImportError: If a library that an option needs is not installed.
    """
    _check_run(arguments)
    _check_search(arguments)
    require_file("--sentences", arguments.sentences)
    require_file("--sample", arguments.sample)
    require_folder("--original", arguments.original)
    if arguments.verify:
        require_originals()
    inputs = {"RUN": arguments.run_directory, "--original": arguments.original}
    inputs |= {"--sentences": arguments.sentences, "--sample": arguments.sample}
    require_separate_paths({"OUT": arguments.out}, inputs)
    is_file = None if arguments.format == "onnx" else arguments.format in FILES
    if arguments.external_data:
        is_file = False
    is_onnx = arguments.format in ("onnx", "onnx-text")
    check_output_path(arguments.out, is_file, ONNX_BEGINNING if is_onnx else b"")
    return None if arguments.sample is None else _sample(arguments.sample)


def _check_run(arguments):
    """Checks the run directory. `RunDirectory` checks the content of `run.json` later."""
    folder = arguments.run_directory
    run = read_run(folder)
    if not isinstance(run, dict):
        return
    kind, model = run.get("kind"), run.get("model")
    if kind == "series":
        refuse_search_options(arguments)
    elif isinstance(kind, str) and arguments.format != "transformers":
        require_kind(folder, kind, "generation")
    sides = (run.get("source"), run.get("target"))
    tokenizers = (side.get("file") for side in sides if isinstance(side, dict))
    checksums = run.get("checksums")
    for name in (model, *tokenizers):
        if isinstance(name, str):
            require_part(folder, name, checksums if isinstance(checksums, dict) else None)


def _check_search(arguments):
    """Checks the argument names in `--search`.

    Without `--search-class`, the search class is not known yet, so the arguments of all classes are
    accepted.
    """
    search_class = arguments.search_class
    known = frozenset[str]().union(*SEARCH_ARGUMENTS.values())
    known = known if search_class is None else SEARCH_ARGUMENTS[search_class]
    unknown = {name for name, _ in arguments.search} - known
    if unknown:
        raise ValueError(unknown_arguments_problem(search_class, unknown, known))


def _sample(path: Path) -> dict[str, Any]:
    """Returns a dict of the arrays in a .npz file."""
    import numpy as np

    try:
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:
                is_array = file.read(6) == b"\x93NUMPY"
            raise ValueError("a .npy file of one array" if is_array else "a file of another format")
        with np.load(path, allow_pickle=False) as loaded:
            return dict(loaded)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"Expected a .npz file with an array for each input of the model. Received: {path} "
            f"({error}). Write it with numpy.savez({path.name!r}, name=array)."
        ) from error
