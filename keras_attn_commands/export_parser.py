"""Parsers of `keras-attn export`, one for each format, made from the options of the formats."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_attn_checks.export_options import FORMATS, formats_with
from keras_attn_checks.options import flag_name, option_fields, option_names
from keras_attn_checks.search_names import SEARCH_ARGUMENTS
from keras_attn_commands.import_modules import add_import_option
from keras_attn_commands.name_and_value import name_and_value
from keras_attn_commands.option_arguments import add_option

FORMAT_HELP = {
    "onnx": "one ONNX file that maps ids to ids, with the search and the tokenizers",
    "onnx-steps": "three ONNX files, for programs that run the search loop",
    "onnx-text": "one ONNX file that maps texts to texts, with onnxruntime-extensions",
    "saved-model": "a TensorFlow SavedModel",
    "litert": "one LiteRT file",
    "litert-steps": "one LiteRT file, for programs that run the search loop",
    "ctranslate2": "a CTranslate2 model",
    "transformers": "a checkpoint folder of transformers",
}

FLAGS = {
    flag_name(field): field
    for options in FORMATS.values()
    for field in option_fields(options)
    if field.metadata["flag"] is not None
}
"""Dict from the names of all options to their fields."""


class RefuseOption(argparse.Action):
    """Names the formats that have an option, if another format gets it.

    The value that means the same as no option is accepted.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values != self.const and not (option_string or "").startswith("--no-"):
            advice = FLAGS[self.option_strings[0]].metadata["flag"].advice
            parser.error(f"argument {option_string}: {formats_with(self.dest)} {advice}".rstrip())


def add_formats(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each format to the parser of the command."""
    formats = parser.add_subparsers(metavar="FORMAT", dest="format", required=True)
    for name, options in FORMATS.items():
        text = FORMAT_HELP[name]
        parser = formats.add_parser(name, help=text, description=f"Writes {text}.")
        parser.add_argument(
            "run_directory",
            metavar="RUN",
            type=Path,
            help="run directory with run.json, see keras_attn.training.RunDirectory",
        )
        parser.add_argument("out", metavar="OUT", type=Path, help="file or directory to write")
        fields = {flag_name(each): each for each in option_fields(options) if each.metadata["flag"]}
        for field in fields.values():
            add_option(parser, field)
        add_import_option(parser)
        for flag in sorted(FLAGS.keys() - fields.keys()):
            _refuse_option(parser, flag, FLAGS[flag])
        _add_search(parser)


def format_first(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of the command with the format in front of the other arguments."""
    first = next((each for each in arguments if each in FORMATS), None)
    rest = list(arguments)
    if first is None:
        return rest
    rest.remove(first)
    return [first, *rest]


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the format that the user wrote, by the names in Python."""
    names = option_names(FORMATS[arguments.format])
    return {name: value for name, value in vars(arguments).items() if name in names}


def _refuse_option(parser, flag, field):
    """Adds an option of other formats, without help."""
    is_bool = field.type in (bool, bool | None)
    names = [flag, flag.replace("--", "--no-", 1)] if field.type == bool | None else [flag]
    parser.add_argument(
        *names,
        action=RefuseOption,
        dest=field.name,
        nargs=0 if is_bool else None,
        const=field.default if field.metadata["kind"].choices else None,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def _add_search(parser):
    parser.add_argument(
        "--search-class",
        choices=tuple(SEARCH_ARGUMENTS),
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
