"""`keras-attn export FORMAT RUN OUT`: exports the model of a training run."""

import argparse
import sys
from typing import Any

from keras_attn_checks.progress import report_phase
from keras_attn_commands.error_text import error_text
from keras_attn_commands.export_checks import check_export
from keras_attn_commands.export_parser import FLAGS, add_formats
from keras_attn_commands.import_modules import check_imports, import_modules
from keras_attn_commands.interruption import interruptible
from keras_attn_commands.quiet_import import quiet_import
from keras_attn_commands.show_progress import show_progress
from keras_attn_commands.train.run_files import stored_settings, unfinished_note

HELP = "export the model of a training run"
STOPPED = "Stopped. Nothing was exported. Run the same command to start again."
DESCRIPTION = (
    "Exports the model of a training run to a file or directory that runs without Keras, or that "
    "CTranslate2 or transformers reads. `keras-attn export FORMAT --help` lists the options of a "
    "format. A forecaster or classifier (a run of the kind 'series' or 'classification') has the "
    "formats onnx and litert. Writes OUT "
    "only if the export passes all checks, and replaces an earlier export at this path. Exit "
    "status: 0 exported; 1 nothing was exported; 2 invalid command line."
)
CHECKPOINTS = ("ctranslate2", "transformers")
"""Formats of other libraries, which run their own searches."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        options = check_export(arguments)
        check_imports(arguments.imports)
        with quiet_import():
            import keras_attn.export  # noqa: F401
        with interruptible(), show_progress():
            import_modules(arguments.imports)
            report = _export(arguments, options)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        names = {field.name: flag for flag, field in FLAGS.items()}
        sentences = getattr(arguments, "parity_sentences", None)
        paths = {"OUT": arguments.out, "--parity-sentences": sentences}
        print(f"Nothing was exported. {error_text(error, names, paths)}", file=sys.stderr)
        return 1
    note = unfinished_note(arguments.run_directory)
    print(f"Wrote {arguments.out}. {report.summary()}{f' {note}' if note else ''}")
    return 0


def _export(arguments: argparse.Namespace, options: dict[str, Any]):
    """Exports the model of a run, and returns the report."""
    import keras_attn
    from keras_attn import export
    from keras_attn.training import RunDirectory

    report_phase(f"Reading {arguments.run_directory}")
    run = RunDirectory(arguments.run_directory)
    if run.kind == "series":
        return _export_forecaster(arguments, run, options)
    if run.kind == "classification" and run.labels is not None:
        return _export_classifier(arguments, run, options)
    # The format transformers also supports encoders, which have no search.
    model = run.load_model(None if arguments.format == "transformers" else "generation")
    if arguments.search or arguments.search_class:
        search_class = arguments.search_class and getattr(keras_attn, arguments.search_class)
        model = keras_attn.with_search(model, search_class, **dict(arguments.search))
    if "parity_sentences" in options:
        options["parity_sentences"] = _read_sentences(arguments.parity_sentences)
    if arguments.format == "transformers" and run.files.get("original"):
        # A run directory that was converted contains the files of its checkpoint.
        options.setdefault("original", arguments.run_directory)
    if arguments.format not in CHECKPOINTS:
        options["model_card"] = run.model_card
        if run.image_format is not None and arguments.format != "onnx-text":
            options["image_format"] = run.image_format
    function = getattr(export, f"export_{arguments.format.replace('-', '_')}")
    return function(model, arguments.out, run.source_tokenizer, run.target_tokenizer, **options)


def _read_sentences(path):
    from keras_attn.files import read_lines

    sentences = list(read_lines(path))
    if not sentences:
        raise ValueError(f"Expected a file of sentences. Received: an empty {path}.")
    return sentences


def _export_classifier(arguments, run, options):
    """Exports a classifier with its tokenizer and labels."""
    import keras
    import numpy as np

    from keras_attn import export
    from keras_attn.text import SpecialTokenIds

    tokenizer = run.source_tokenizer
    sentences = options.pop("parity_sentences", None)
    if sentences is not None:
        rows = tokenizer.encode(_read_sentences(sentences))
    else:
        generator = np.random.default_rng(0)
        special = SpecialTokenIds.of(tokenizer)
        ids = [each for each in range(tokenizer.vocabulary_size) if each not in special]
        rows = [generator.choice(ids, length) for length in generator.integers(1, 30, size=32)]
    sample = keras.utils.pad_sequences(rows, padding="post", value=tokenizer.pad_token_id)
    options.setdefault("parity_inputs", sample)
    options.setdefault("max_length", stored_settings(arguments.run_directory).get("max_length"))
    function = getattr(export, f"export_functional_{arguments.format}")
    return function(
        run.load_model("classification"),
        arguments.out,
        tokenizer=tokenizer,
        labels=run.labels,
        **options,
    )


def _export_forecaster(arguments, run, options):
    from keras_attn import export
    from keras_attn.training import SeriesColumns

    columns = run.series or SeriesColumns()
    function = getattr(export, f"export_forecaster_{arguments.format}")
    return function(
        run.load_model("series"),
        arguments.out,
        target_names=columns.targets,
        past_covariate_names=columns.past_covariates,
        future_covariate_names=columns.future_covariates,
        time_column=columns.time_column,
        calendar_columns=columns.calendar_columns,
        series_column=columns.series_column,
        **options,
    )
