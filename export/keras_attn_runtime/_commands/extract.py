"""`keras-attn-runtime extract FILE --tokenizers DIR`."""

import base64
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_attn_runtime._commands.line_arguments import add_model
from keras_attn_runtime._errors import ModelFileError, in_one_line
from keras_attn_runtime._file_format import tokenizer_of
from keras_attn_runtime._file_format.file_checksum import model_files
from keras_attn_runtime._file_info.read_metadata import read_exported_file
from keras_attn_runtime._files.atomic_files import atomic_files, require_different_files

HELP = "write the tokenizers and settings of a file to separate files"
DESCRIPTION = (
    "Copies the tokenizers and settings of an exported ONNX or LiteRT file to separate files. Some "
    "programs need this because they cannot read the metadata of the exported file, for example "
    "apps on phones and ONNX Runtime in JavaScript. Existing output files are replaced. Exit "
    "status: 0 if the files were written, 1 if reading or writing failed, 2 if the command line is "
    "invalid."
)
SUFFIXES = {"sentencepiece": ".spm", "tokenizers": ".json"}
"""Maps tokenizer formats to file suffixes."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "--tokenizers",
        metavar="DIR",
        type=Path,
        help="directory for the tokenizers of source and target: SentencePiece models (source.spm, "
        "target.spm) or Hugging Face tokenizers (source.json, target.json). The two files are "
        "equal if source and target share a vocabulary. The directory is created if it does not "
        "exist",
    )
    parser.add_argument(
        "--settings",
        metavar="JSON",
        type=Path,
        help="JSON file for the settings: special ids, limits, vocabulary sizes",
    )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    if arguments.tokenizers is None and arguments.settings is None:
        arguments.parser.error("expected --tokenizers DIR, --settings JSON, or both")
    try:
        files = _content(arguments)
        for path in files:
            require_different_files(path, *model_files(arguments.model))
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files(*files) as streams:
            for stream, content in zip(streams, files.values(), strict=True):
                stream.write(content)
    except (ValueError, OSError) as error:
        print(f"Nothing was written. {in_one_line(error)}", file=sys.stderr)
        return 1
    for path in files:
        print(f"Wrote {path}.")
    return 0


def _content(arguments: Namespace) -> dict[Path, bytes]:
    """Returns a dict from output paths to file contents."""
    metadata, sides = read_exported_file(Path(arguments.model))
    files: dict[Path, bytes] = {}
    if arguments.tokenizers is not None:
        kinds = {name: side.tokenizer for name, side in sides.items()}
        kinds = {side: kind for side, kind in kinds.items() if kind in SUFFIXES}
        if not kinds:
            raise ModelFileError(
                f"Expected a file with tokenizers. Received: {arguments.model!r}, which was "
                "exported without tokenizers. Export it again with tokenizers."
            )
        for side, kind in kinds.items():
            model = base64.b64decode(tokenizer_of(metadata, side), validate=True)
            files[arguments.tokenizers / f"{side}{SUFFIXES[kind]}"] = model
    if arguments.settings is not None:
        entries = json.loads(metadata["keras_attn.settings"])
        for path in files:
            if os.path.realpath(path) == os.path.realpath(arguments.settings):
                raise ValueError(
                    "Expected a path for the settings that is not the path of a tokenizer. "
                    f"Received: --settings={str(arguments.settings)!r}. Choose another name."
                )
        files[arguments.settings] = (json.dumps(entries, indent=2) + "\n").encode()
    return files
