"""Exports the forecaster of a training run."""

import argparse
from typing import Any

FORMATS = {"onnx": "export_forecaster_onnx", "litert": "export_forecaster_litert"}
"""Dict from each format of a forecaster to the name of its export function."""


def export_forecaster(arguments: argparse.Namespace, run: Any, sample: Any) -> str:
    """Exports the forecaster of a run.

    Args:
        arguments: Arguments of the command.
        run: `RunDirectory`.
        sample: Dict of arrays, the inputs for the comparison with Keras, or `None`.

    Returns:
        String, the result of the comparison.
    """
    from keras_attn import export
    from keras_attn.training import SeriesColumns

    columns = run.series or SeriesColumns()
    given = {"batch_size": arguments.batch_size, "tolerance": arguments.tolerance}
    choices = {name: value for name, value in given.items() if value is not None}
    function = getattr(export, FORMATS[arguments.format])
    try:
        largest = function(
            run.load_model("series"),
            arguments.out,
            columns.targets,
            columns.past_covariates,
            columns.future_covariates,
            columns.time_column,
            sample_inputs=sample,
            **choices,
        )
    except export.ExportError as error:
        raise RuntimeError(str(error)) from error
    return f": largest difference {largest.largest_difference:.1e}"


def refuse_search_options(arguments: argparse.Namespace) -> None:
    """Raises a `ValueError` for a format or an option that forecasters do not support."""
    if arguments.format not in FORMATS:
        raise ValueError(
            f"Expected one of the formats {list(FORMATS)} for a forecaster. Received: "
            f"{arguments.format}."
        )
    given = {
        "--sentences": arguments.sentences is not None,
        "--precision": arguments.precision != "float32",
        "--external-data": arguments.external_data,
        "--alignments": arguments.alignments is not None,
        "--target-prefix": arguments.target_prefix,
        "--allow-nonfinite": arguments.allow_nonfinite,
        "--search-class": arguments.search_class is not None,
        "--search": bool(arguments.search),
    }
    unused = [name for name, is_given in given.items() if is_given]
    if unused:
        raise ValueError(
            "Expected only the options --sample, --tolerance and --batch-size for a forecaster. "
            "Received: "
            f"{', '.join(unused)}. Omit them."
        )
