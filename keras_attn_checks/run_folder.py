import hashlib
import json
from pathlib import Path
from typing import Any

from keras_attn_checks.path_kind import CONFIG, RUN, describe_path


def require_run_file(folder: Path, name: str) -> None:
    """Checks that a run directory contains a file.

    Args:
        folder: Path of the run directory.
        name: String, name of the file.

    Raises:
        FileNotFoundError: If the directory or the file does not exist. The message describes
            `folder`, for example as a Keras file.
    """
    if (folder / name).is_file():
        return
    if not folder.exists():
        raise FileNotFoundError(
            f"Expected the path of a run directory. Received: {str(folder)!r}, which does not "
            "exist. Check the path."
        )
    kind = describe_path(folder)
    if name == RUN and not folder.is_dir():
        parent = folder.parent
        advice = f"Pass its directory, {str(parent)!r}."
        if not (parent / RUN).is_file():
            advice = "Create a run directory with keras_attn.training.RunDirectory.create."
        raise FileNotFoundError(
            f"Expected a run directory, with {name}. Received: {str(folder)!r}, {kind}. {advice}"
        )
    if name == RUN and (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"Expected a run directory, with {name}. Received: {str(folder)!r}, a checkpoint of "
            f"transformers. Convert it first, with `keras-attn convert {folder} RUN`, and pass RUN."
        )
    if name == RUN and kind != "a directory":
        raise FileNotFoundError(
            f"Expected a run directory, with {name}. Received: {str(folder)!r}, {kind}. Pass the "
            "run directory from which it was exported."
        )
    raise FileNotFoundError(
        f"Expected the directory of a training run, with {name}. Received: {str(folder)!r}, in "
        f"which {name} is missing. Wait for the end of the training, or create the directory with "
        "keras_attn.training.RunDirectory.create."
    )


def read_run(folder: Path) -> Any:
    """Returns the content of the `run.json` of a run directory.

    Raises:
        FileNotFoundError: If the directory or the file does not exist.
        ValueError: If the file is not JSON.
    """
    require_run_file(folder, RUN)
    try:
        return json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected JSON in {str(folder / RUN)!r}. Received: {error}. Train again, or write the "
            "file with keras_attn.training.RunDirectory.create."
        ) from error


def require_part(folder: Path, name: str, checksums: Any) -> None:
    """Checks that a run directory contains a file, and that it belongs to the training of the run.

    Args:
        folder: Path of the run directory.
        name: String, name of the file.
        checksums: `checksums` in the `run.json` of the directory: dict from file names to lists of
            SHA-256 checksums. `None` for a directory of an earlier version, whose files are not
            compared.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is from another training or was changed.
    """
    require_run_file(folder, name)
    if checksums is None:
        return
    expected = "Expected a run directory with the files of one training."
    if name not in checksums:
        raise ValueError(
            f"{expected} Received: {str(folder / name)!r}, which is not listed in `checksums` of "
            f"{RUN}. It is from an earlier training, or it was not written with "
            "keras_attn.training.RunDirectory.save_model. Train again, or save the model with this "
            "method."
        )
    found = file_checksum(folder / name)
    if found not in checksums[name]:
        raise ValueError(
            f"{expected} Received: {str(folder / name)!r} with the SHA-256 {found[:12]}..., which "
            f"differs from `checksums` of {RUN}. The file is from another training, or it was "
            "changed. Restore the files of one training, or train again."
        )


def file_checksum(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_kind(folder: Path, kind: str, required: str) -> None:
    """Checks that a run directory has the required kind, such as `"generation"`.

    Args:
        folder: Path of the run directory, for the message.
        kind: String, `kind` in the `run.json` of the directory.
        required: String, the required kind.

    Raises:
        ValueError: If `kind` is not `required`.
    """
    if kind != required:
        raise ValueError(
            f"Expected a run of the kind {required!r}. Received: kind={kind!r} in "
            f"{str(folder)!r}. Load the model with keras.saving.load_model, and export it with "
            "export_functional_onnx."
        )
