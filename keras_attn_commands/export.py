"""`keras-attn export FORMAT RUN OUT`: exports the model of a training run."""

import argparse
import sys
from pathlib import Path

from keras_attn_checks.progress import report_phase
from keras_attn_checks.search_names import SEARCH_ARGUMENTS
from keras_attn_commands.export_checks import check_export
from keras_attn_commands.export_forecaster import export_forecaster
from keras_attn_commands.name_and_value import name_and_value
from keras_attn_commands.option_names import name_options
from keras_attn_commands.quiet_import import quiet_import
from keras_attn_commands.show_progress import show_progress

LITERT = ("litert", "litert-steps")
CHECKPOINTS = ("ctranslate2", "transformers")
"""Formats of other libraries, which run their own searches."""
FORMATS = ("onnx", "onnx-steps", "onnx-text", "saved-model", *LITERT, *CHECKPOINTS)
PRECISIONS = ("float32", "float16", "int8", "int8-rows", "int4")
FEW_PRECISIONS = ("float32", "float16", "int8")
SEARCH_CLASSES = tuple(SEARCH_ARGUMENTS)
ARGUMENTS = {
    "batch_size": "--batch-size",
    "max_source_characters": "--max-source-characters",
    "original": "--original",
    "precision": "--precision",
    "sample_inputs": "--sample",
    "tolerance": "--tolerance",
}
"""Dict from arguments of Python functions to options of the command. Errors name the options."""

HELP = "export the model of a training run"
DESCRIPTION = (
    "Exports the model of a training run to a file or directory that runs without Keras, or that "
    "CTranslate2 or transformers reads. A forecaster (a run of the kind 'series') has the formats "
    "onnx and litert. Writes "
    "OUT only if the export passes all checks, and replaces an earlier export at this path. "
    "Exit status: 0 exported; 1 nothing was exported; 2 invalid command line."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "format", metavar="FORMAT", choices=FORMATS, help=f"one of {', '.join(FORMATS)}"
    )
    parser.add_argument(
        "run_directory",
        metavar="RUN",
        type=Path,
        help="run directory with run.json, see keras_attn.training.RunDirectory",
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="file or directory to write")
    parser.add_argument(
        "--sentences",
        metavar="FILE",
        type=Path,
        help="source sentences for the comparison of the export with Keras, one per line. Default: "
        "random sentences",
    )
    parser.add_argument(
        "--sample",
        metavar="FILE",
        type=Path,
        help="NumPy .npz file with an array for each input, for the comparison of the export with "
        "Keras, if the inputs of the model are not ids. Default: random numbers",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="precision of the weights, for the formats onnx and onnx-text, and for litert, "
        "litert-steps and ctranslate2 (float32, float16 or int8). Default: %(default)s",
    )
    parser.add_argument(
        "--tolerance",
        metavar="X",
        type=float,
        help="maximum difference between the export and Keras, of a score or log probability for "
        "logits up to 10 (proportional to larger logits), or of a value of a forecaster. Default: "
        "1e-4, and 1e-3 for the LiteRT formats and forecasters",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=int,
        help="number of sources in each call, for the formats litert and litert-steps. Default: 1",
    )
    parser.add_argument(
        "--external-data",
        action="store_true",
        help="write OUT as a directory with the weights in a separate file, for the format onnx. "
        "Always enabled for more than 2 GB of weights",
    )
    parser.add_argument(
        "--alignments",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether to add the attention weights to the outputs. Default: the setting of the "
        "search of the model",
    )
    parser.add_argument(
        "--target-prefix",
        action="store_true",
        help="add an input with the first tokens of each output",
    )
    parser.add_argument(
        "--max-source-characters",
        metavar="N",
        type=int,
        help="maximum number of characters of a text, applied before tokenization, for the formats "
        "saved-model and onnx-text. Default: 32 times the maximum number of tokens",
    )
    parser.add_argument(
        "--allow-nonfinite", action="store_true", help="accept NaN and infinite weights"
    )
    parser.add_argument(
        "--original",
        metavar="FOLDER",
        type=Path,
        help="checkpoint folder from which the model was converted, or the run directory of its "
        "conversion, for the format transformers. Default: RUN, if it contains the files of a "
        "checkpoint. Without them, the model must have an architecture of transformers",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare logits and search results with transformers, for the format transformers. "
        "Needs PyTorch and transformers",
    )
    parser.add_argument(
        "--search-class",
        choices=SEARCH_CLASSES,
        help="search class of the exported file. Default: the search of the model",
    )
    parser.add_argument(
        "--search",
        metavar="NAME=VALUE",
        type=name_and_value,
        action="append",
        default=[],
        help="argument of the search, such as beam_width=2 or no_repeat_ngram_size=3. Can be "
        "repeated. Default: the arguments in the model",
    )


def run(arguments: argparse.Namespace) -> int:
    choices = _choices(arguments)
    try:
        sample = check_export(arguments)
        with quiet_import():
            import keras_attn.export  # noqa: F401
        with show_progress():
            report = _export(arguments, choices, sample)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())  # errors of C++ code can have several lines
        paths = {"OUT": arguments.out, "--sentences": arguments.sentences}
        print(f"Nothing was exported. {name_options(reason, ARGUMENTS, paths)}", file=sys.stderr)
        return 1
    print(f"Wrote {arguments.out}. {report.rstrip('.')}.")
    return 0


def _choices(arguments):
    """Returns the keyword arguments for the export function of the selected format."""
    has_precision = arguments.format in ("onnx", "onnx-text", *LITERT)
    has_text = arguments.format in ("saved-model", "onnx-text")
    refuse = arguments.parser.error
    if arguments.format != "transformers" and (arguments.original or arguments.verify):
        refuse("only the format transformers has --original and --verify")
    if arguments.format in CHECKPOINTS:
        return _checkpoint_choices(arguments)
    if not has_precision and arguments.precision != "float32":
        refuse(
            "only the formats onnx, onnx-text, litert and litert-steps have a precision, received "
            f"{arguments.precision}"
        )
    if arguments.format in LITERT and arguments.precision not in FEW_PRECISIONS:
        refuse(
            f"the format {arguments.format} has the precisions {', '.join(FEW_PRECISIONS)}, "
            f"received {arguments.precision}"
        )
    if arguments.format not in LITERT and arguments.batch_size is not None:
        refuse("only the formats litert and litert-steps have a fixed batch size")
    if arguments.format != "onnx" and arguments.external_data:
        refuse("only the format onnx can have external data")
    if not has_text and arguments.max_source_characters is not None:
        refuse(
            "only the formats saved-model and onnx-text have a limit of characters; for the other "
            "formats, pass --max-source-characters to keras-attn-runtime"
        )
    if arguments.format == "onnx-text" and arguments.alignments:
        refuse("the format onnx-text has no alignments")
    if arguments.format == "onnx-text" and arguments.sample is not None:
        refuse("the format onnx-text reads texts and cannot use --sample")
    choices = {
        "target_prefix": arguments.target_prefix,
        "allow_nonfinite": arguments.allow_nonfinite,
    }
    if has_precision:
        choices["precision"] = arguments.precision
    if arguments.tolerance is not None:
        choices["tolerance"] = arguments.tolerance
    if arguments.max_source_characters is not None:
        choices["max_source_characters"] = arguments.max_source_characters
    if arguments.batch_size is not None:
        choices["batch_size"] = arguments.batch_size
    if arguments.format == "onnx":
        choices["external_data"] = arguments.external_data
    if arguments.format != "onnx-text":
        choices["alignments"] = arguments.alignments
    return choices


def _checkpoint_choices(arguments):
    """Returns the keyword arguments for an export to CTranslate2 or transformers."""
    refuse = arguments.parser.error
    refused = {
        "--alignments": arguments.alignments is not None,
        "--batch-size": arguments.batch_size is not None,
        "--external-data": arguments.external_data,
        "--max-source-characters": arguments.max_source_characters is not None,
        "--sample": arguments.sample is not None,
        "--sentences": arguments.sentences is not None,
        "--target-prefix": arguments.target_prefix,
        "--tolerance": arguments.tolerance is not None,
    }
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        refuse(f"the format {arguments.format} does not have {', '.join(given)}")
    choices = {"allow_nonfinite": arguments.allow_nonfinite}
    if arguments.format == "transformers":
        if arguments.precision != "float32":
            refuse(f"the format transformers has float32 weights, received {arguments.precision}")
        return {**choices, "original": arguments.original, "compare": arguments.verify}
    if arguments.precision not in FEW_PRECISIONS:
        refuse(
            f"the format ctranslate2 has the precisions {', '.join(FEW_PRECISIONS)}, received "
            f"{arguments.precision}"
        )
    return {**choices, "precision": arguments.precision}


def _export(arguments, choices, sample):
    """Exports the model of a run. Returns a text about the comparison with Keras."""
    import keras_attn
    from keras_attn import export
    from keras_attn.files import read_lines
    from keras_attn.training import RunDirectory

    report_phase(f"Reading {arguments.run_directory}")
    run = RunDirectory(arguments.run_directory)
    if run.kind == "series":
        return f"Compared with Keras{export_forecaster(arguments, run, sample)}"
    # The format transformers also supports encoders, which have no search.
    model = run.load_model(None if arguments.format == "transformers" else "generation")
    if arguments.search or arguments.search_class:
        search_class = arguments.search_class and getattr(keras_attn, arguments.search_class)
        model = keras_attn.replace_search(model, search_class, **dict(arguments.search))
    sentences = None
    if arguments.sentences is not None:
        sentences = list(read_lines(arguments.sentences))
        if not sentences:
            raise ValueError(
                f"Expected a file of sentences. Received: an empty {arguments.sentences}."
            )
    function = getattr(export, f"export_{arguments.format.replace('-', '_')}")
    tokenizers = run.source_tokenizer, run.target_tokenizer
    if arguments.format == "transformers" and choices["original"] is None:
        # A run directory that was converted contains the files of its checkpoint.
        choices["original"] = run.files.get("original") and arguments.run_directory
    if arguments.format in CHECKPOINTS:
        return str(_call(function, model, arguments.out, *tokenizers, **choices))
    choices = {**choices, "card": run.card}
    if run.image_format is not None and arguments.format != "onnx-text":
        choices = {**choices, "image_format": run.image_format}
    if sample is not None:
        choices = {**choices, "sample_inputs": sample}
    report = _call(function, model, arguments.out, *tokenizers, sentences=sentences, **choices)
    text = str(report)
    start, details = "WARNING, LOW AGREEMENT: ", ". Details: "
    if text.startswith(start) and details in text:
        warning, text = text.split(details, 1)
        return f"{warning}. Compared with Keras on {text}"
    return f"Compared with Keras on {text}"


def _call(function, *arguments, **choices):
    from keras_attn.export import ExportError

    try:
        return function(*arguments, **choices)
    except ExportError as error:
        raise RuntimeError(str(error)) from error
