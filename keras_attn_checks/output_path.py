"""Checks whether an export or a conversion may write to a path. User files are never replaced."""

import contextlib
import os
import stat
from pathlib import Path

from keras_attn_checks.message import Argument, Message

EXPORTS = {
    "model.onnx": {"model.weights"},
    "start.onnx": {"step.onnx", "finish.onnx"},
    "saved_model.pb": {"fingerprint.pb", "variables", "assets"},
    "conversion.txt": set(
        """
        labels.txt model.keras original run.json
        source.json source.spm target.json target.spm
        """.split()
    ),
    "export.txt": set(
        """
        added_tokens.json chat_template.jinja config.json generation_config.json merges.txt
        model.bin model.safetensors sentencepiece.bpe.model shared_vocabulary.json source.spm
        source_vocabulary.json special_tokens_map.json spiece.model target.spm target_vocab.json
        target_vocabulary.json tokenizer.json tokenizer.model tokenizer_config.json
        vocab-src.json vocab-tgt.json vocab.json vocab.txt
        """.split()
    ),
}
"""Dict with one entry for each type of exported or converted directory: the name of its main file,
and the names of all other files. A directory that contains any other name is never replaced.
"""

EXTRA, EXTRA_NAMES = "assets.extra", {"keras_attn.json"}
"""Directory in a SavedModel, and the names of the files that an export writes to this directory.
Users can add other files to the directory, such as warm-up requests of TensorFlow Serving. A
SavedModel with such files is not replaced."""

ONNX_BEGINNING = b"\x08"
"""First byte of an ONNX file, the tag of `ir_version`. Files of other formats are not replaced."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_output_path(path: Path, is_file: bool | None = None, first_bytes: bytes = b"") -> Path:
    """Checks that a file or a directory may be written to a path.

    Args:
        path: Path of the new file or directory. If it is a symbolic link, its target is replaced.
        is_file: Bool, `True` if a file will be written, `False` for a directory. Defaults to
            `None`: a file or a directory.
        first_bytes: Bytes. An existing file is only replaced if it begins with these bytes or is
            empty. Defaults to `b""`: any file is replaced.

    Returns:
        The path, or the target of the symbolic link.

    Raises:
        FileNotFoundError: If the parent directory does not exist.
        FileExistsError: If the path has content that must not be replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    require_parent_directory(path)
    refuse_other_content(path, is_file, first_bytes)
    return path


def require_parent_directory(path: Path) -> None:
    """Raises a `FileNotFoundError` if the parent directory of a path does not exist."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            Message(
                "Expected a path in an existing directory. Received: ",
                Argument("path", str(path)),
                f". Create {str(path.parent)!r} first.",
            )
        )


def names_in(path: Path) -> set[str]:
    """Returns all names in a directory, or an empty set if the directory does not exist."""
    try:
        return set(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):  # another process moved it
        return set()


def refuse_other_content(path: Path, is_file: bool | None = None, first_bytes: bytes = b"") -> None:
    """Raises a `FileExistsError` if `path` has content that must not be replaced."""
    kind = None
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    if kind is not None:
        raise FileExistsError(
            Message(
                "Expected the path of a file or a directory. Received: ",
                Argument("path", str(path)),
                f", {kind}. Choose another path.",
            )
        )
    names = names_in(path)
    if "saved_model.pb" in names and names_in(path / EXTRA) == EXTRA_NAMES:
        names.discard(EXTRA)
    is_export = any(main in names and names <= {main, *more} for main, more in EXPORTS.items())
    if names and not is_export:
        raise FileExistsError(
            Message(
                "Expected a new path, or an earlier export to replace. Received: ",
                Argument("path", str(path)),
                ", a directory with other content. Move it away, or choose another path.",
            )
        )
    if is_file and path.is_dir():
        raise FileExistsError(
            Message(
                "Expected the name of a file. Received: ",
                Argument("path", str(path)),
                ", a directory. Remove it, or choose another path.",
            )
        )
    if path.is_file() and (first_bytes or is_file is False):
        _refuse_other_file(path, first_bytes)


def _refuse_other_file(path, first_bytes):
    with open(path, "rb") as stream:
        begin = stream.read(max(1, len(first_bytes)))
    if begin and (not first_bytes or begin != first_bytes):
        raise FileExistsError(
            Message(
                "Expected a new path, or an earlier export to replace. Received: ",
                Argument("path", str(path)),
                ", a file with other content. Move it away, or choose another path.",
            )
        )
