"""`keras-attn-runtime classify FILE < in.txt > labels.txt`."""

from argparse import ArgumentParser, Namespace

from keras_attn_runtime._classify.classifier import Classifier
from keras_attn_runtime._commands.json_line import classification_line
from keras_attn_runtime._commands.line_arguments import EPILOG as EPILOG
from keras_attn_runtime._commands.line_arguments import add_line_arguments, add_model
from keras_attn_runtime._commands.line_command import run_lines
from keras_attn_runtime._errors import ModelFileError

HELP = "classify standard input, line by line"
DESCRIPTION = (
    "Reads texts from standard input, one per line, and writes the label of each text to standard "
    "output, in the same order. A blank line has a blank label. Only \\n ends a line. FILE must "
    "contain a tokenizer and labels: export_functional_onnx(..., tokenizer=..., labels=...)."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "--attention",
        action="store_true",
        help="write the attention weight of each piece. Needs --format jsonl",
    )
    add_line_arguments(parser)


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    if arguments.format == "text" and arguments.attention:
        arguments.parser.error("--attention needs --format jsonl")

    with run_lines(arguments) as command:
        classifier = command.open_model(Classifier)
        if arguments.attention and not classifier.has_attention:
            raise ModelFileError(
                "Expected a file with attention weights, because of --attention. Received: "
                f"{arguments.model!r}, which has none. Export a model with a second output, the "
                "attention weights of shape (batch, time)."
            )
        for result in classifier.classify_iterable(command.read(), **command.options()):
            if arguments.format == "jsonl":
                line = classification_line(result, arguments.attention)
            else:
                line = (result.label or "").replace("\n", " ")
            command.write(result, line)
    return command.status
