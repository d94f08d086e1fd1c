"""`python -m keras_attn.export onnx|onnx-steps|onnx-text|saved-model RUN OUT`."""

import argparse
import ast
import contextlib
import json
import sys
from pathlib import Path

import keras_attn  # noqa: F401 - registers the layers that the model is made of
from keras_attn._files.lines import read_lines
from keras_attn.export.export_error import ExportError
from keras_attn.export.formats.export_onnx import PRECISIONS, export_onnx
from keras_attn.export.formats.export_onnx_steps import export_onnx_steps
from keras_attn.export.formats.export_onnx_text import export_onnx_text
from keras_attn.export.formats.export_saved_model import export_saved_model
from keras_attn.models.replace_search import replace_search
from keras_attn.search.beam_decoder import BeamDecoder
from keras_attn.search.greedy_decoder import GreedyDecoder
from keras_attn.search.sampling_decoder import SamplingDecoder
from keras_attn.training.run_directory import RunDirectory

SEARCH_CLASSES = {each.__name__: each for each in (BeamDecoder, GreedyDecoder, SamplingDecoder)}


def main(arguments=None):
    """Runs the command line; returns the exit code: 0 done, 1 refused, 2 wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m keras_attn.export",
        description="Exports the search model of a training run. RUN is a run directory with "
        "run.json, as keras_attn.training.RunDirectory writes it. An earlier export under the same "
        "name is replaced, but only by one that passed all checks.",
    )
    exports = {
        "onnx": export_onnx,
        "onnx-steps": export_onnx_steps,
        "onnx-text": export_onnx_text,
        "saved-model": export_saved_model,
    }
    parser.add_argument("format", choices=tuple(exports))
    parser.add_argument("run", metavar="RUN", type=Path, help="directory of the training run")
    parser.add_argument("out", metavar="OUT", type=Path, help="file or directory to write")
    parser.add_argument(
        "--sentences",
        metavar="FILE",
        type=Path,
        help="source sentences, one a line, on which the export is compared with Keras; by "
        "default they are random",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of the weights of an ONNX file (%(default)s)",
    )
    parser.add_argument(
        "--external-data",
        action="store_true",
        help="make OUT a directory with the weights in a file of their own, as more than 2 GB of "
        "them always are",
    )
    parser.add_argument(
        "--alignments",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the attention weights are among the outputs; by default as the search was "
        "made",
    )
    parser.add_argument(
        "--target-prefix",
        action="store_true",
        help="let the caller say what translations begin with",
    )
    parser.add_argument(
        "--max-source-characters",
        metavar="N",
        type=int,
        help="limit of characters of a text, before the tokenizer, of the formats saved-model and "
        "onnx-text (32 times the limit of tokens)",
    )
    parser.add_argument(
        "--allow-nonfinite",
        action="store_true",
        help="accept weights that are NaN or infinite",
    )
    parser.add_argument(
        "--search-class",
        choices=tuple(SEARCH_CLASSES),
        help="another search than the one it was trained with",
    )
    parser.add_argument(
        "--search",
        metavar="NAME=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="an argument of the search in the place of the one it was trained with, such as "
        "beam_width=2 or no_repeat_ngram_size=3; may be given more than once",
    )
    options = parser.parse_args(arguments)
    has_precision = options.format in ("onnx", "onnx-text")
    if not has_precision and options.precision != "float32":
        parser.error(
            f"only the formats onnx and onnx-text have a precision, received {options.precision}"
        )
    if options.format != "onnx" and options.external_data:
        parser.error("only the format onnx can have external data")
    has_text = options.format in ("saved-model", "onnx-text")
    if not has_text and options.max_source_characters is not None:
        parser.error(
            "only the formats saved-model and onnx-text have a limit of characters; the runtime "
            "has one of its own"
        )
    if options.format == "onnx-text" and options.alignments:
        parser.error("the format onnx-text has no alignments")
    try:
        run = RunDirectory(options.run)
        model = run.load_model("generation")
        if options.search or options.search_class:
            search_class = SEARCH_CLASSES.get(options.search_class)
            model = replace_search(model, search_class, **dict(options.search))
        sentences = None
        if options.sentences is not None:
            sentences = list(read_lines(options.sentences))
            if not sentences:
                raise ValueError(f"Expected sentences. Received: an empty {options.sentences}.")
        choice = {
            "target_prefix": options.target_prefix,
            "allow_nonfinite": options.allow_nonfinite,
        }
        if has_precision:
            choice["precision"] = options.precision
        if options.max_source_characters is not None:
            choice["max_source_characters"] = options.max_source_characters
        if options.format == "onnx":
            choice["external_data"] = options.external_data
        if options.format != "onnx-text":
            choice["alignments"] = options.alignments
        export = exports[options.format]
        if options.format in ("onnx", "onnx-steps"):
            choice["card"] = run.card
        tokenizers = run.source_tokenizer, run.target_tokenizer
        report = export(model, options.out, *tokenizers, sentences=sentences, **choice)
    except (ExportError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())  # in one line, also if it comes from C++ code
        print(f"Nothing was exported. {reason}", file=sys.stderr)
        return 1
    print(f"Wrote {options.out}. Compared with Keras on {report}.")
    return 0


def _setting(text):
    """Name and value of NAME=VALUE, which is JSON, a Python literal or else a string."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, received {text!r}")
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return name, read(value)
    return name, value


if __name__ == "__main__":
    sys.exit(main())
