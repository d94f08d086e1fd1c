"""Model repositories of NVIDIA Triton.

REPOSITORY/NAME/config.pbtxt     the configuration that Triton reads
REPOSITORY/NAME/1/model.onnx     the file, with model.weights beside it if it has one
"""

import hashlib
import os
import re
import shutil
import tempfile
from os import PathLike
from pathlib import Path

from keras_attn_runtime.exported_model import ExportedModel

TYPES = {
    "tensor(int32)": "TYPE_INT32",
    "tensor(float)": "TYPE_FP32",
    "tensor(float16)": "TYPE_FP16",
}


def config(model: ExportedModel, name: str) -> str:
    """Returns the configuration of an exported file, as protobuf text of Triton's `ModelConfig`.

    `max_batch_size` is 0, which means that every axis is in `dims`: the model does batches, but its
    limit and penalty, which are numbers, have no batch axis. Triton writes a number as one element.

    Args:
        model: `ExportedModel`.
        name: string, the name that clients ask for.

    Returns:
        String.
    """
    lines = [f'name: "{name}"', 'backend: "onnxruntime"', "max_batch_size: 0"]
    signature = model.signature()
    for side, values in (("input", signature["input"]), ("output", signature["output"])):
        for value in values:
            sizes = [size if isinstance(size, int) else -1 for size in value.shape] or [1]
            kind = TYPES[value.type]
            lines.append(f'{side} {{ name: "{value.name}" data_type: {kind} dims: {sizes} }}')
    return "\n".join(lines) + "\n"


def write_repository(
    path: str | PathLike[str], repository: str | PathLike[str], name: str | None = None
) -> Path:
    """Adds an exported file to a model repository, whole or not at all.

    Args:
        path: string or path of the ONNX file, or of the directory that was exported in its place.
        repository: string or path of the directory; made if it is missing.
        name: string, the name of the model. Default: that of the file, without its suffix.

    Returns:
        Path of the model's directory.

    Raises:
        FileExistsError: if the repository has a model of this name.
        ModelFileError: if the file is damaged, from elsewhere, or of another format.
        ValueError: if the name is not made of letters, digits, `_`, `-` and `.`.
    """
    name = Path(path).stem if name is None else name
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise ValueError(
            "Expected a name of letters, digits, '_', '-' and '.'. "
            f"Received: name={name!r}. Choose another one with --name."
        )
    target = Path(repository) / name
    if target.exists():
        raise FileExistsError(
            f"Expected a new model. Received: {str(target)!r}, which exists. Remove it, or choose "
            "another name with --name."
        )
    model = ExportedModel(path)
    drafts = _place_of_drafts(target.parent)
    drafts.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(drafts, name)
    # A name of its own: in containers several processes have the same process id.
    partial = Path(tempfile.mkdtemp(f"-{_short(name)}", ".partial-", drafts))
    lock = _locked(partial)
    draft = partial / name
    try:
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
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if lock is not None:
            os.close(lock)
    return target


def _short(name: str) -> str:
    """Returns the name, or its checksum if it is too long to become part of another name."""
    return name if len(name) <= 128 else hashlib.sha256(name.encode()).hexdigest()[:32]


def _remove_leftovers(directory: Path, name: str) -> None:
    """Removes partial directories of this model that killed processes left."""
    found = directory.iterdir() if os.access(directory, os.R_OK) else ()
    for left in list(found):
        if re.fullmatch(rf"\.partial-[^-]+-{re.escape(_short(name))}", left.name):
            lock = _locked(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _locked(directory: Path) -> int | None:
    """Returns a descriptor that locks a directory until the process ends; None if impossible."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:  # gone meanwhile, or of another user
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of a process that lives, or on a file system without such locks
        os.close(descriptor)
        return None
    return descriptor


def _place_of_drafts(repository: Path) -> Path:
    """Returns the directory for partial models: next to the repository, if that is writable.

    Triton loads every directory in its repository, and does not start with a partial model.
    """
    beside = repository.absolute().parent
    while not beside.exists():
        beside = beside.parent
    same_device = not repository.exists() or repository.stat().st_dev == beside.stat().st_dev
    return beside if same_device and os.access(beside, os.W_OK) else repository
