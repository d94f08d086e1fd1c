"""`keras-attn evaluate RUN|FILE`: scores the translations or the labels of a test set."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn_checks.evenly_spaced import evenly_spaced
from keras_attn_checks.progress import report_count, report_phase
from keras_attn_commands.error_text import error_text
from keras_attn_commands.existing_paths import require_file
from keras_attn_commands.import_modules import (
    add_import_option,
    check_imports,
    import_modules,
)
from keras_attn_commands.interruption import interruptible
from keras_attn_commands.quiet_import import quiet_import
from keras_attn_commands.show_progress import show_progress
from keras_attn_commands.translation_scores import score_translations, translation_score_text

HELP = "compute BLEU and chrF of a translator, or the accuracy of a classifier, on a test set"
STOPPED = "Stopped. Nothing was evaluated. Run the same command to start again."
DESCRIPTION = (
    "Translates or classifies the lines of a file and compares the results with references. For a "
    "translator: BLEU and chrF by sacreBLEU with its default settings and its signature, and the "
    "share of lines that equal their reference. For a classifier: accuracy, and the F1 of each "
    "label. RUN|FILE is a run directory, or an exported file that the runtime reads. Exit status: "
    "0 evaluated; 1 an error; 2 invalid command line."
)
SAMPLES = 3
"""Number of results that are printed."""
CHUNK = 256
"""Number of sources after which the progress is shown. They have similar lengths."""
DEFAULT_LENGTH = 512
"""Number of tokens after which a classifier cuts a text, if its run has no settings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="RUN|FILE", type=Path, help="run directory or file")
    for side, text in (
        ("source", "sentences to translate or classify"),
        ("target", "references, or labels"),
    ):
        parser.add_argument(
            f"--{side}",
            metavar="FILE",
            type=Path,
            help=f"text file of {text}, one in each line, plain or .gz. Default: "
            f"RUN/data/test.{side}",
        )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="text file to write the translations or labels to. Default: they are not written",
    )
    add_import_option(parser)
    parser.add_argument("--json", action="store_true", help="print the scores as a JSON object")


def run(arguments: argparse.Namespace) -> int:
    try:
        paths = _check_paths(arguments)
        check_imports(arguments.imports)
        with quiet_import():
            from keras_attn.files import write_lines
        with interruptible(), show_progress():
            sources, references = _read(paths)
            import_modules(arguments.imports)
            report_phase(f"Reading {arguments.model}")
            found = _run(arguments.model, sources)
            score, text_of = _score_functions(found.is_classifier)
            scores = score(found.texts, references)
            if arguments.out is not None:
                write_lines(arguments.out, found.texts)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        print(f"Nothing was evaluated. {error_text(error, {}, {})}", file=sys.stderr)
        return 1
    if found.num_cut:
        print(
            f"Warning: {found.num_cut:,} of {len(sources):,} sources have more tokens than the "
            "model reads and were cut.",
            file=sys.stderr,
        )
    if arguments.json:
        print(json.dumps(scores))
        return 0
    for row in evenly_spaced(SAMPLES, len(sources)):
        print(f"  {sources[row]} -> {found.texts[row]}   (reference: {references[row]})")
    print(text_of(scores))
    return 0


def _check_paths(arguments):
    """Returns a dict from the sides to the paths of their files."""
    paths = {}
    for side in ("source", "target"):
        path = getattr(arguments, side)
        if path is None and not arguments.model.is_dir():
            raise ValueError(
                f"Expected a test set with --source and --target. Received: no --{side}, and "
                f"{str(arguments.model)!r}, which is no run directory. Pass both files, such as "
                "RUN/data/test.source and RUN/data/test.target of the run of an exported file."
            )
        paths[side] = path or arguments.model / "data" / f"test.{side}"
        if path is None and not paths[side].is_file():
            raise ValueError(
                f"Expected the run of a translator or a classifier. Received: {arguments.model}, "
                f"without data/test.{side}. The errors of a forecaster are in results.json. For "
                "another run, pass the test set with --source and --target."
            )
        require_file(f"--{side}", paths[side])
    return paths


def _read(paths):
    """Returns sources and references. A blank source without a reference is left out."""
    from keras_attn.files import read_lines

    sides = [[line.strip() for line in read_lines(path)] for path in paths.values()]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"Expected as many references as sources. Received: {len(sides[0])} lines in "
            f"{paths['source']} and {len(sides[1])} lines in {paths['target']}. Check that both "
            "were made from the same sentences."
        )
    pairs = [pair for pair in zip(*sides, strict=True) if any(pair)]
    if not pairs:
        raise ValueError(
            f"Expected sentences. Received: only blank lines in {paths['source']}. Check the file."
        )
    return [list(side) for side in zip(*pairs, strict=True)]


class Results(NamedTuple):
    """Translations or labels, and the number of sources that were cut."""

    texts: list[str]
    is_classifier: bool
    num_cut: int


def _run(model: Path, sources: list[str]) -> Results:
    """Translates or classifies sources with a run directory or an exported file."""
    if not (model.is_dir() and (model / "run.json").is_file()):
        return _run_file(model, sources)
    from keras_attn.training import RunDirectory

    run = RunDirectory(model)
    tokenizer = run.source_tokenizer
    if run.kind == "classification" and run.labels is not None and tokenizer is not None:
        from keras_attn_commands.classification import classify_texts
        from keras_attn_commands.train.run_files import stored_settings

        length = stored_settings(model).get("max_length", DEFAULT_LENGTH)
        classifier, labels = run.load_model(), run.labels
        found = _in_chunks(
            "Classifying",
            sources,
            lambda texts: classify_texts(classifier, tokenizer, texts, length),
            lambda each: labels[int(each.probabilities.argmax())],
        )
        return Results(**found, is_classifier=True)
    translator, target_tokenizer = run.load_model("generation"), run.target_tokenizer
    found = _in_chunks(
        "Translating",
        sources,
        lambda texts: translator.generate(texts, tokenizer, target_tokenizer, return_details=True),
        lambda each: each.text,
    )
    return Results(**found, is_classifier=False)


def _run_file(path, sources):
    try:
        from keras_attn_runtime import Classifier, ModelFileError, Translator
    except ImportError as error:
        raise ImportError(
            "The evaluation of an exported file needs the runtime. Install it in a checkout: `pip "
            "install './export[cpu]'`."
        ) from error
    try:
        translator = Translator(str(path), truncate=True)
    except ModelFileError as error:
        try:
            classifier = Classifier(str(path), truncate=True)
        except ModelFileError:
            raise error from None
        found = _in_chunks(
            "Classifying", sources, classifier.classify, lambda each: each.label or ""
        )
        return Results(**found, is_classifier=True)
    found = _in_chunks("Translating", sources, translator.translate, lambda each: each.text)
    return Results(**found, is_classifier=False)


def _in_chunks(
    phase: str,
    sources: Sequence[str],
    function: Callable[[list[str]], Sequence[Any]],
    text_of: Callable[[Any], str],
) -> dict[str, Any]:
    """Calls a function with sources of similar lengths, and shows the progress.

    Args:
        phase: String, name of the work.
        sources: List of strings.
        function: Function from sources to results, which have the attribute `truncated`.
        text_of: Function from a result to a string.

    Returns:
        Dict with `texts`, the strings in the order of the sources, and `num_cut`.
    """
    report_phase(f"{phase} {len(sources):,} sources")
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    texts, num_cut = [""] * len(sources), 0
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        for row, result in zip(rows, function([sources[row] for row in rows]), strict=True):
            texts[row] = text_of(result)
            num_cut += result.truncated
        report_count(start + len(rows), len(order))
    return {"texts": texts, "num_cut": num_cut}


def _score_functions(is_classifier):
    """Returns a function that computes scores, and one that returns them as text."""
    if is_classifier:
        from keras_attn_commands.classification import label_score_text, score_labels

        return score_labels, label_score_text
    return score_translations, translation_score_text
