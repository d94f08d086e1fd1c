"""`keras-attn-runtime info FILE`."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from keras_attn_runtime._errors import in_one_line
from keras_attn_runtime._file_format.json_values import is_list, is_object
from keras_attn_runtime._file_info.describe_file import describe_file
from keras_attn_runtime._file_info.tensor_value import TensorValue

HELP = "describe a model file"
DESCRIPTION = (
    "Describes an ONNX or LiteRT file: format, inputs, outputs, precision, settings, tokenizers, "
    "and the versions of the programs that wrote it. Verifies checksums. Needs no library that "
    "runs the file. Names the format of SavedModels, Keras files and others. Exit status: "
    "0 recognized; 1 damaged or not recognized; 2 invalid command line."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("path", metavar="FILE", help="file or directory")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="write readable text or one JSON object. Default: %(default)s",
    )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    try:
        description = describe_file(arguments.path)
    except (ValueError, OSError) as error:
        print(f"error: {in_one_line(error)}", file=sys.stderr)
        return 1
    description = {key: value for key, value in description.items() if value not in (None, "", {})}
    if arguments.format == "json":
        print(json.dumps(description, ensure_ascii=False))
    else:
        print("\n".join(_lines(description)))
    return 0


def _lines(entries: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yields one line for each value of nested dictionaries and lists of tensors."""
    for key, value in entries.items():
        key = key.replace("_", " ") if not indent else key
        if is_object(value):
            yield f"{indent}{key or 'unnamed'}:"
            yield from _lines(value, f"{indent}  ")
        elif is_list(value) and value and all(map(is_object, value)):
            yield f"{indent}{key}:"
            for tensor in value:
                yield f"{indent}  {_tensor(tensor)}"
        else:
            yield f"{indent}{key}: {value if isinstance(value, str) else json.dumps(value)}"


def _tensor(entry: dict[str, Any]) -> str:
    return str(TensorValue(**entry)) if "dtype" in entry else json.dumps(entry)
