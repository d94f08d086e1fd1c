"""`keras-attn-runtime info FILE`."""

import json
import sys

from keras_attn_runtime.errors import in_one_line
from keras_attn_runtime.file_info.describe_file import describe_file
from keras_attn_runtime.file_info.tensor_value import TensorValue

HELP = "say what a model file is"
DESCRIPTION = (
    "Says what a file or directory is: its format, inputs, outputs, precision, settings, "
    "tokenizers, and the versions of the programs that wrote it. Reads ONNX files of keras-attn "
    "and of other programs, SavedModels, .keras and TensorFlow Lite files; needs none of the "
    "libraries that run them. Compares a file with its checksum. Exit status: 0 recognized; "
    "1 damaged or not recognized; 2 wrong command line."
)


def add_arguments(parser):
    parser.add_argument("path", metavar="FILE", help="file or directory")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text to read, or one JSON object. Default: %(default)s",
    )


def run(arguments):
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


def _lines(entries, indent=""):
    """Yields one line for each value of nested dictionaries and lists of tensors."""
    for key, value in entries.items():
        key = key.replace("_", " ") if not indent else key
        if isinstance(value, dict):
            yield f"{indent}{key or 'unnamed'}:"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            yield f"{indent}{key}:"
            for each in value:
                yield f"{indent}  {_tensor(each)}"
        else:
            yield f"{indent}{key}: {value if isinstance(value, str) else json.dumps(value)}"


def _tensor(entry):
    return str(TensorValue(**entry)) if "dtype" in entry else json.dumps(entry)
