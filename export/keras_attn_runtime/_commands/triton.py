"""`keras-attn-runtime triton FILE REPOSITORY` writes NVIDIA Triton model repositories.

REPOSITORY/NAME/config.pbtxt     the configuration that Triton reads
REPOSITORY/NAME/1/model.onnx     the ONNX file
REPOSITORY/NAME/1/model.weights  its external weights, if any
"""

import os
import re
import shutil
import sys
from argparse import ArgumentParser, Namespace
from os import PathLike
from pathlib import Path

from keras_attn_runtime._commands.line_arguments import add_model
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.litert_container import is_litert_file
from keras_attn_runtime._files.working_directory import working_directory
from keras_attn_runtime._models.exported_model import ExportedModel

TYPES = {"int32": "TYPE_INT32", "float32": "TYPE_FP32", "float16": "TYPE_FP16"}

HELP = "add a file to a model repository of NVIDIA Triton"
DESCRIPTION = (
    "Adds an ONNX file exported by keras-attn to a model repository of NVIDIA Triton Inference "
    "Server. Exit status: 0 written; 1 nothing was written; 2 invalid command line."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "repository", metavar="REPOSITORY", help="directory of the model repository"
    )
    parser.add_argument(
        "--name", help="name of the model. Default: the name of FILE without its suffix"
    )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    try:
        written = write_repository(arguments.model, arguments.repository, arguments.name)
    except (ValueError, OSError, ImportError) as error:
        print(f"Nothing was written. {error}", file=sys.stderr)
        return 1
    print(f"Wrote {written}.")
    return 0


def config(model: ExportedModel, name: str) -> str:
    """Returns an exported file's configuration, as protobuf text for Triton's `ModelConfig`.

    `max_batch_size` is 0. With a larger number, Triton would add a batch axis to every input, but
    the scalars `max_length` and `length_penalty` have none. With 0, `dims` lists all axes,
    including the batch axis. Scalars are described as tensors with one element, because Triton
    requires at least one axis.

    Args:
        model: `ExportedModel`.
        name: string, model name in requests.

    Returns:
        String.
    """
    lines = [f'name: "{name}"', 'backend: "onnxruntime"', "max_batch_size: 0"]
    signature = model.signature()
    for side, values in (("input", signature["input"]), ("output", signature["output"])):
        for value in values:
            sizes = [size if isinstance(size, int) else -1 for size in value.shape or ()] or [1]
            kind = TYPES[value.dtype]
            lines.append(f'{side} {{ name: "{value.name}" data_type: {kind} dims: {sizes} }}')
    return "\n".join(lines) + "\n"


def write_repository(
    path: str | PathLike[str], repository: str | PathLike[str], name: str | None = None
) -> Path:
    """Adds an exported file to a model repository atomically.

    Args:
        path: string or path, the ONNX file, or the directory with `model.onnx`.
        repository: string or path, the directory, which is created if it does not exist.
        name: string, model name. Default: the name of the file or directory without its
            suffix.

    Returns:
        Path, the model's directory.

    Raises:
        FileExistsError: if the repository contains a model with this name.
        IsADirectoryError: if the directory contains no `model.onnx`.
        ModelFileError: if the file is damaged, was not exported by keras_attn, or has a format
            version that this runtime does not support.
        ValueError: if the name is empty, begins with `-` or `.`, or contains other characters than
            letters, digits, `_`, `-` and `.`.
    """
    name = Path(path).stem if name is None else name
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise ValueError(
            "Expected a name of letters, digits, '_', '-' and '.'. "
            f"Received: name={name!r}. Choose another name with --name."
        )
    target = Path(repository) / name
    if target.exists():
        raise FileExistsError(
            f"Expected a new model. Received: {str(target)!r}, which exists. Remove it, or choose "
            "another name with --name."
        )
    if is_litert_file(path):
        raise ModelFileError(
            f"Expected an ONNX file, because Triton has no backend for LiteRT. Received: "
            f"{str(path)!r}. Export the model with `keras-attn export onnx`."
        )
    model = ExportedModel(path)
    drafts = _place_of_drafts(target.parent)
    drafts.mkdir(parents=True, exist_ok=True)
    with working_directory(drafts, name) as partial:
        draft = partial / name
        (draft / "1").mkdir(parents=True)
        copies = [draft / "1" / copy for copy in ("model.onnx", "model.weights")]
        for file, copy in zip(model.files, copies, strict=False):
            shutil.copyfile(file, copy)
        (draft / "config.pbtxt").write_text(config(model, name), encoding="utf-8")
        for file in (path for path in draft.rglob("*") if path.is_file()):
            with open(file, "rb+") as stream:
                os.fsync(stream.fileno())
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(target)
    return target


def _place_of_drafts(repository: Path) -> Path:
    """Returns the directory for partial models: the repository's parent, if it is writable.

    Triton loads every directory in its repository, and fails to start if a model is partial.
    """
    beside = repository.absolute().parent
    while not beside.exists():
        beside = beside.parent
    same_device = not repository.exists() or repository.stat().st_dev == beside.stat().st_dev
    return beside if same_device and os.access(beside, os.W_OK) else repository
