"""`keras-attn train PROGRAM`: trains a model, with a full program for each task."""

import argparse
import dataclasses
import importlib
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from keras_attn_checks.options import flag_name, option_fields, option_names
from keras_attn_checks.separate_paths import separate_paths_problem
from keras_attn_commands.error_text import error_text
from keras_attn_commands.interruption import interruptible
from keras_attn_commands.option_arguments import add_option
from keras_attn_commands.quiet_import import quiet_import
from keras_attn_commands.train.captions_settings import CaptionSettings
from keras_attn_commands.train.classifier_settings import ClassifierSettings
from keras_attn_commands.train.forecast_settings import ForecastSettings
from keras_attn_commands.train.language_model_settings import LanguageModelSettings
from keras_attn_commands.train.run_files import GENERATED, finished_epochs
from keras_attn_commands.train.settings import (
    check_settings,
    groups,
    read_settings,
    to_toml,
    values_of,
)
from keras_attn_commands.train.translation_settings import TranslationSettings

HELP = "train a model on your own data"
STOPPED = "Stopped before the first epoch. Run the same command to start again."
DESCRIPTION = (
    "Trains a model and writes a run directory, which `keras-attn export` and `keras-attn "
    "evaluate` read. Settings that are not given are chosen by the data, and printed with the "
    "reason. An interrupted training continues if the same command is run again. Exit status: 0 "
    "trained; 1 an error; 2 invalid command line; 130 interrupted."
)


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program.

    Args:
        help: String, text of `--help`.
        settings: Dataclass of its settings.
        module: String, name of the module, with the function `train(settings, command, warn)`.
    """

    help: str
    settings: type
    module: str


PROGRAMS = {
    "translation": Program(
        "a translator: text in, text out",
        TranslationSettings,
        "keras_attn_commands.train.translation",
    ),
    "classifier": Program(
        "a classifier: text in, label out",
        ClassifierSettings,
        "keras_attn_commands.train.classifier",
    ),
    "forecast": Program(
        "a forecaster of the series in CSV files",
        ForecastSettings,
        "keras_attn_commands.train.forecast",
    ),
    "language-model": Program(
        "a model that continues texts",
        LanguageModelSettings,
        "keras_attn_commands.train.language_model",
    ),
    "captions": Program(
        "a model that describes images",
        CaptionSettings,
        "keras_attn_commands.train.captions",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    programs = parser.add_subparsers(metavar="PROGRAM", dest="program", required=True)
    for name, program in PROGRAMS.items():
        command = programs.add_parser(
            name, help=program.help, description=f"Trains {program.help}."
        )
        command.add_argument(
            "--config",
            metavar="FILE",
            type=Path,
            help="TOML file of settings, such as RUN/settings.toml, which also contains the values "
            "that the data determined. Options replace its values",
        )
        command.add_argument(
            "--show-settings",
            action="store_true",
            help="print the settings of this command line as TOML, and exit",
        )
        for title, fields in groups(program.settings):
            group = command.add_argument_group(title)
            for field in fields:
                add_option(group, field)


def run(arguments: argparse.Namespace) -> int:
    program = PROGRAMS[arguments.program]
    flags = {field.name: flag_name(field) for field in option_fields(program.settings)}
    try:
        settings = _settings(arguments, program)
        if arguments.show_settings:
            print(to_toml(values_of(settings)), end="")
            return 0
        with quiet_import():
            train = importlib.import_module(program.module).train
        command = " ".join(map(shlex.quote, ["keras-attn", *sys.argv[1:]]))
        try:
            with interruptible():
                train(settings, command, _warn)
        except KeyboardInterrupt as interruption:
            raise KeyboardInterrupt(str(interruption) or _stopped(settings)) from None
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        print(f"Stopped. {error_text(error, flags, {})}", file=sys.stderr)
        return 1
    return 0


def _stopped(settings: Any) -> str:
    """Returns the line after Ctrl-C before the first step, or after the last one."""
    if settings.dry_run:
        return "Stopped. Nothing was trained."
    epochs = finished_epochs(settings.run_dir)
    return f"Stopped after epoch {epochs}. Run the same command to continue." if epochs else STOPPED


def _settings(arguments: argparse.Namespace, program: Program) -> Any:
    """Returns the checked settings of the configuration file and the options."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # twice as fast on CPUs without VNNI
    values = {} if arguments.config is None else read_settings(arguments.config, program.settings)
    names = option_names(program.settings)
    values |= {name: value for name, value in vars(arguments).items() if name in names}
    settings = program.settings(**values)
    check_settings(settings)
    inputs = {
        flag_name(field): value
        for field in option_fields(program.settings)
        if field.name != "run_dir" and isinstance(value := getattr(settings, field.name), Path)
    }
    problem = separate_paths_problem({"--run-dir": settings.run_dir}, inputs, only_equal=True)
    if problem:
        raise ValueError(problem)
    for option, path in inputs.items():
        if not path.exists():
            raise FileNotFoundError(
                f"Expected the path of a file or folder. Received: {option} {path}, which does not "
                "exist. Check the path."
            )
        for name in GENERATED:
            if path.resolve().is_relative_to((settings.run_dir / name).resolve()):
                raise ValueError(
                    f"Expected inputs outside of --run-dir/{name}, which a training replaces. "
                    f"Received: {option} {path}, --run-dir {settings.run_dir}. Choose another "
                    "--run-dir."
                )
    return settings


def _warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr, flush=True)
