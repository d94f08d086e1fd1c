"""`keras-attn-runtime translate FILE < in.txt > out.txt`, or `--images DIR` instead of lines."""

from argparse import ArgumentParser, Namespace

from keras_attn_runtime._calls.search_settings import SETTINGS
from keras_attn_runtime._commands.argument_types import integer, positive_integer, setting
from keras_attn_runtime._commands.image_directory import ImageDirectory
from keras_attn_runtime._commands.json_line import json_line
from keras_attn_runtime._commands.line_arguments import EPILOG as EPILOG
from keras_attn_runtime._commands.line_arguments import add_model, add_translation_arguments
from keras_attn_runtime._commands.line_command import run_lines
from keras_attn_runtime._commands.line_phrases import LinePhrases, add_phrase_arguments
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._generation_result import GenerationResult
from keras_attn_runtime._translate.text_model import require_tokenizers

HELP = "translate standard input, line by line"
DESCRIPTION = (
    "Translates standard input, one sentence per line, and writes one line to standard output for "
    "each input line, in the same order. Only \\n ends a line. With --images, writes the name, a "
    "tab and the caption of each image file of a directory."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "--images",
        metavar="DIR",
        help="read the image files of a directory, sorted by name, instead of standard input. For "
        "models that read images; needs Pillow. Default: read lines",
    )
    parser.add_argument(
        "--target-prefix",
        metavar="TEXT",
        help="prefix of each translation, such as a language tag. Default: none",
    )
    parser.add_argument(
        "--max-length",
        type=integer,
        metavar="N",
        help="maximum number of output tokens, in addition to the limit that the file derives from "
        "the input. Default: the limit in the file",
    )
    parser.add_argument(
        "--num-hypotheses",
        type=positive_integer,
        metavar="N",
        help="number of translations of each line, best first. Values above 1 need --format jsonl. "
        "Default: 1",
    )
    parser.add_argument(
        "--seed",
        type=integer,
        metavar="N",
        help="seed of a sampling search; the same seed gives the same output. Default: random",
    )
    parser.add_argument(
        "--replace-unknown",
        action="store_true",
        help="replace each unknown token by the source word with the largest attention weight. "
        "Needs a file with alignments",
    )
    parser.add_argument(
        "--stop-text",
        action="append",
        metavar="TEXT",
        help="cut each translation before this text. Can be repeated. Default: none",
    )
    add_translation_arguments(parser)
    add_phrase_arguments(parser)
    settings = parser.add_argument_group(
        "settings of the search",
        "Each needs a file that was exported with --runtime-settings and its name. Default: the "
        "value in the file",
    )
    for name, allowed in SETTINGS.items():
        settings.add_argument(
            f"--{name.replace('_', '-')}",
            type=setting(name),
            metavar="N" if allowed.is_integer else "X",
            help=allowed.text,
        )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    if arguments.format == "text":
        # A text line contains one translation and nothing else.
        if arguments.alignments:
            arguments.parser.error("--alignments needs --format jsonl")
        if arguments.num_hypotheses not in (None, 1):
            arguments.parser.error(
                f"--num-hypotheses {arguments.num_hypotheses} needs --format jsonl; "
                "--format text writes only the best translation"
            )

    images = None if arguments.images is None else ImageDirectory(arguments.images)

    if arguments.constraints_in_order and arguments.glossary is arguments.constraints is None:
        arguments.parser.error("--constraints-in-order needs --constraints or --glossary")
    if images is not None and arguments.glossary is not None:
        arguments.parser.error("--glossary needs lines of text, not --images")

    with run_lines(arguments, images) as command:
        phrases = LinePhrases(arguments, command.stack)
        translator = command.open()
        phrases.check(translator)
        if arguments.format == "text":
            _check_tokenizers(translator.settings)
        options = command.translation_options()
        options |= {"num_hypotheses": arguments.num_hypotheses or 1, "seed": arguments.seed}
        for name in SETTINGS:
            options[name] = getattr(arguments, name)
        options["replace_unknown"] = arguments.replace_unknown
        options["constraints_in_order"] = arguments.constraints_in_order
        options["stop_texts"] = arguments.stop_text
        items, constraints = command.read(), None
        if not phrases.is_empty:
            items, constraints = phrases.of_items(items), phrases.phrases()
        method = translator.translate_iterable if images is None else translator.generate_iterable
        prefix = arguments.target_prefix
        translations = method(items, target_prefix=prefix, constraints=constraints, **options)
        for index, translation in enumerate(translations):
            file = None if images is None else images.name(index)
            command.write(translation, _line(translation, file, arguments))
    return command.status


def _check_tokenizers(settings: Settings) -> None:
    """Raises `ModelFileError` if the file lacks the tokenizers of input and output texts."""
    source = settings.source
    if source is not None and not source.has_tokenizer:
        require_tokenizers({"source": source, "target": settings.target})
    require_tokenizers({"target": settings.target}, "use --format jsonl, which writes ids")


def _line(translation: GenerationResult, file: str | None, arguments: Namespace) -> str:
    """Returns an output line, without the newline."""
    if arguments.format == "jsonl":
        return json_line(
            translation, arguments.num_hypotheses is not None, arguments.alignments, file
        )
    assert translation.text is not None  # checked by _check_tokenizers
    # A newline inside a translation would add a line to the output.
    text = translation.text.replace("\n", " ")
    return text if file is None else f"{file}\t{text}"
