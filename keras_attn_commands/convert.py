"""`keras-attn convert FOLDER RUN`: converts a checkpoint of another library to a run directory."""

import argparse
import sys
from pathlib import Path

from keras_attn_checks.progress import report_phase
from keras_attn_commands.convert_checks import check_conversion
from keras_attn_commands.error_text import error_text
from keras_attn_commands.interruption import interruptible
from keras_attn_commands.name_and_value import name_and_value
from keras_attn_commands.quiet_import import quiet_import
from keras_attn_commands.show_progress import show_progress

HELP = "convert a checkpoint of transformers or OpenNMT-tf"
STOPPED = "Stopped. Nothing was converted. Run the same command to start again."
DESCRIPTION = (
    "Converts a checkpoint folder of Hugging Face's transformers, or a Transformer of OpenNMT-tf "
    "2, to a run directory, which the other commands read. The converted model returns the same "
    "results as the original. If a part of the checkpoint cannot be converted, nothing is written. "
    "An earlier conversion in RUN is replaced. Exit status: 0 written; 1 nothing was written; 2 "
    "wrong command line."
)
OPENNMT_OPTIONS = ("model_type", "config", "source_vocabulary", "target_vocabulary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        help="folder with config.json, model.safetensors (or shards, or pytorch_model.bin) and the "
        "files of the tokenizers; or, for OpenNMT-tf, a folder with TensorFlow checkpoints, or the "
        "path of one checkpoint without .index",
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
        "--setting",
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help="replace a search setting of the checkpoint, such as eos_token_id=2. Can be repeated",
    )
    parser.add_argument(
        "--parse-special-tokens",
        action="store_true",
        help="read special tokens that are typed in a text, such as </s>, as their ids, as chat "
        "templates need it. Only for texts that you wrote yourself",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare logits and search results with the original model. Needs PyTorch and "
        "transformers",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print how each setting was treated. RUN/conversion.txt contains the same report",
    )
    opennmt = parser.add_argument_group("checkpoints of OpenNMT-tf")
    opennmt.add_argument(
        "--model-type",
        metavar="NAME",
        help="name in the catalog of OpenNMT-tf, such as TransformerBase, or path of a "
        "model_description.py (default: the file in FOLDER or in its parent folder)",
    )
    opennmt.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="configuration in YAML (default: data.yml or config.yml in FOLDER)",
    )
    for side in ("source", "target"):
        opennmt.add_argument(
            f"--{side}-vocabulary",
            metavar="FILE",
            type=Path,
            help=f"vocabulary of the {side} (default: the path in the configuration)",
        )


def run(arguments: argparse.Namespace) -> int:
    try:
        is_opennmt = check_conversion(arguments, OPENNMT_OPTIONS)
        with quiet_import():
            import keras_attn.convert  # noqa: F401
        with interruptible(), show_progress():
            conversion, verification = _convert(arguments, is_opennmt)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        paths = {"FOLDER": arguments.folder, "RUN": arguments.out}
        print(
            f"Nothing was converted. {error_text(error, {'config': '--config'}, paths)}",
            file=sys.stderr,
        )
        return 1
    if arguments.report:
        print(conversion.report(), end="")
    treatments = ("mapped", "irrelevant", "harmless", "ignored")
    counts = ", ".join(f"{conversion.count(name)} {name}" for name in treatments)
    print(f"Wrote {arguments.out}, a {conversion.architecture}. Settings: {counts}.")
    if not arguments.report:
        print(f"Tokenizers: {conversion.tokenizers}.")
    if conversion.source_tokenizer is None and conversion.kind == "generation":
        print("Without a tokenizer, the exported model reads and writes token ids, not texts.")
    if verification is not None:
        print(f"The model was {verification}.")
    return 0


def _convert(arguments, is_opennmt):
    from keras_attn.convert import from_opennmt_tf, from_transformers, verify

    folder, ignored = arguments.folder, arguments.ignore_setting
    report_phase(f"Converting {folder}")
    if is_opennmt:
        options = {name: getattr(arguments, name) for name in OPENNMT_OPTIONS}
        conversion = from_opennmt_tf(folder, **options, ignore_settings=ignored)
        report_phase(f"Writing {arguments.out}")
        conversion.save(arguments.out)
        return conversion, None
    settings, parse = dict(arguments.setting), arguments.parse_special_tokens
    conversion = from_transformers(folder, ignored, settings, parse)
    verification = None
    if arguments.verify:
        report_phase("Comparing the model with transformers")
        verification = verify(folder, conversion.model, settings=settings)
    report_phase(f"Writing {arguments.out}")
    conversion.save(arguments.out)
    return conversion, verification
