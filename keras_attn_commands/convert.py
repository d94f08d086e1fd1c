"""`keras-attn convert FOLDER RUN`: converts a checkpoint of transformers to a run directory."""

import argparse
import sys
from pathlib import Path

HELP = "convert a checkpoint of Hugging Face's transformers"
DESCRIPTION = (
    "Converts a checkpoint folder of Hugging Face's transformers to a run directory, which the "
    "other commands read. The converted model returns the same results as the original. If a part "
    "of the checkpoint cannot be converted, nothing is written. An earlier conversion in RUN is "
    "replaced. Exit status: 0 written; 1 nothing was written; 2 wrong command line."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        help="folder with config.json, model.safetensors (or shards, or pytorch_model.bin) and the "
        "files of the tokenizers",
    )
    parser.add_argument("out", metavar="RUN", type=Path, help="run directory to write")
    parser.add_argument(
        "--ignore-setting",
        metavar="NAME",
        action="append",
        default=[],
        help="accept a setting of the checkpoint that is unknown or would change results. Can be "
        "repeated",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare logits and search with the original, which needs PyTorch and transformers",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print how each setting was treated. The file conversion.txt in RUN has the same",
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        conversion, verification = _convert(arguments)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())  # errors of C++ code can have several lines
        print(f"Nothing was converted. {reason}", file=sys.stderr)
        return 1
    if arguments.report:
        print(conversion.report(), end="")
    treatments = ("mapped", "irrelevant", "harmless", "ignored")
    counts = ", ".join(f"{conversion.count(name)} {name}" for name in treatments)
    print(f"Wrote {arguments.out}, a {conversion.architecture}. Settings: {counts}.")
    if verification is not None:
        print(f"The model was {verification}.")
    return 0


def _convert(arguments):
    from keras_attn.convert import from_transformers, verify

    conversion = from_transformers(arguments.folder, arguments.ignore_setting)
    verification = None
    if arguments.verify:
        verification = verify(arguments.folder, conversion.model)
    conversion.save(arguments.out)
    return conversion, verification
