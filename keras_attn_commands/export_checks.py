"""Checks of `keras-attn export` before it imports Keras."""

import argparse
import zipfile
from pathlib import Path
from typing import Any

from keras_attn_checks.export_options import FORMATS, OTHER_FORMATS
from keras_attn_checks.installed import require_originals
from keras_attn_checks.options import flag_name, option_fields, option_names
from keras_attn_checks.output_path import ONNX_BEGINNING, check_output_path
from keras_attn_checks.run_folder import read_run, require_kind, require_part
from keras_attn_checks.search_names import SEARCH_ARGUMENTS, unknown_arguments_problem
from keras_attn_checks.separate_paths import require_separate_paths
from keras_attn_commands.existing_paths import require_file, require_folder
from keras_attn_commands.export_parser import given_options

FILES = ("onnx-text", "litert", "litert-steps")
"""Formats whose export is always a single file. The format onnx writes a directory for a model of
more than 2 GB."""


def check_export(arguments: argparse.Namespace) -> dict[str, Any]:
    """Checks the paths and the options of the command.

    Args:
        arguments: Arguments of the command.

    Returns:
        Dict of the options that the user wrote, by their names in Python. `parity_inputs` is a dict
        of arrays.

    Raises:
        OSError: If a path does not exist or must not be replaced.
        ValueError: If an option does not apply to the model, or a file has the wrong format.
        ImportError: If a library that an option needs is not installed.
    """
    options = given_options(arguments)
    _check_run(arguments, options)
    _check_search(arguments)
    FORMATS[arguments.format].of(options)
    files = {
        "--parity-sentences": options.get("parity_sentences"),
        "--parity-inputs": options.get("parity_inputs"),
        "--original": options.get("original"),
    }
    require_file("--parity-sentences", files["--parity-sentences"])
    require_file("--parity-inputs", files["--parity-inputs"])
    require_folder("--original", files["--original"])
    if options.get("compare"):
        require_originals()
    require_separate_paths({"OUT": arguments.out}, {"RUN": arguments.run_directory, **files})
    is_file = None if arguments.format == "onnx" else arguments.format in FILES
    if options.get("external_data"):
        is_file = False
    is_onnx = arguments.format in ("onnx", "onnx-text")
    check_output_path(arguments.out, is_file, ONNX_BEGINNING if is_onnx else b"")
    if "parity_inputs" in options:
        options["parity_inputs"] = _sample(options["parity_inputs"])
    return options


def _check_run(arguments, options):
    """Checks the run directory. `RunDirectory` checks the content of `run.json` later."""
    folder = arguments.run_directory
    run = read_run(folder)
    if not isinstance(run, dict):
        return
    kind, model = run.get("kind"), run.get("model")
    if kind == "series":
        _check_other_model(arguments, options, "forecaster", "a forecaster")
    elif kind == "classification" and run.get("labels") is not None:
        _check_other_model(arguments, options, "functional", "a classifier")
    elif isinstance(kind, str) and arguments.format != "transformers":
        require_kind(folder, kind, "generation")
    sides = (run.get("source"), run.get("target"))
    tokenizers = (side.get("file") for side in sides if isinstance(side, dict))
    checksums = run.get("checksums")
    for name in (model, *tokenizers):
        if isinstance(name, str):
            require_part(folder, name, checksums if isinstance(checksums, dict) else None)


def _check_other_model(arguments, options, prefix, model):
    """Raises a `ValueError` for a format or an option that models without a search do not have."""
    name = f"{prefix}-{arguments.format}"
    if name not in OTHER_FORMATS:
        formats = [each for each in FORMATS if f"{prefix}-{each}" in OTHER_FORMATS]
        raise ValueError(
            f"Expected one of the formats {formats} for {model}. Received: {arguments.format}."
        )
    fields = {field.name: field for field in option_fields(FORMATS[arguments.format])}
    known = option_names(OTHER_FORMATS[name])
    if prefix == "functional":
        known = [*known, "parity_sentences"]  # which the command encodes
    others = {each: value for each, value in options.items() if each not in known}
    given = [flag_name(fields[each]) for each in others if others[each] != fields[each].default]
    given += ["--search-class"] if arguments.search_class else []
    given += ["--search"] if arguments.search else []
    if given:
        allowed = [flag_name(fields[each]) for each in known if each in fields]
        raise ValueError(
            f"Expected only the options {', '.join(allowed)} for {model}. Received: "
            f"{', '.join(given)}. Omit them."
        )
    for each in others:  # defaults
        del options[each]


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
