"""Writes the LiteRT file of a search, with one or several signatures."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export._types import ExportTokenizer, LiteRTPrecision, Run, SampleInputs, Sentences
from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.check_tolerance import check_tolerance
from keras_attn.export.checks.litert_runner import run_in_batches
from keras_attn.export.checks.parity_report import ParityReport
from keras_attn.export.checks.search_comparison import SearchComparison
from keras_attn.export.formats.file_format import describe, describe_card
from keras_attn.export.formats.litert_file import refuse_other_file, write_litert_file
from keras_attn.export.require import require, require_utf8
from keras_attn.export.trace.litert_conversion import (
    PRECISIONS,
    Signatures,
    check_batch_size,
    convert_to_litert,
    require_small,
    with_batch_size,
)
from keras_attn.export.trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.models.generation_model import GenerationModel
from keras_attn.training.image_format import ImageFormat
from keras_attn.training.model_card import ModelCard
from keras_attn_checks.progress import report_phase

if TYPE_CHECKING:
    import tensorflow as tf

Split: TypeAlias = (
    "Callable[[SearchFunction, Sequence[tf.TensorSpec]], tuple[Signatures, Callable[[bytes], Run]]]"
)
"""Function that returns the signatures of a file, and a function that opens its content."""


def write_litert_search(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None,
    target_tokenizer: ExportTokenizer | None,
    split: Split,
    *,
    alignments: bool | None,
    sentences: Sentences | None,
    sample_inputs: SampleInputs | None,
    precision: LiteRTPrecision,
    batch_size: int,
    target_prefix: bool,
    allow_nonfinite: bool,
    tolerance: float,
    card: ModelCard | None,
    image_format: ImageFormat | None,
) -> ParityReport:
    """Writes a LiteRT file and compares it with Keras.

    Args:
        model: See `export_litert`.
        path: See `export_litert`.
        source_tokenizer: See `export_litert`.
        target_tokenizer: See `export_litert`.
        split: Function `(function, signature)` that returns `(signatures, open_model)`. `function`
            is a `SearchFunction`, and `signature` is the list of `tf.TensorSpec` of its inputs,
            with a fixed batch size. `signatures` are the signatures of the file. `open_model` takes
            the bytes of a model and returns a runner. The runner takes arrays as keyword arguments
            and returns a dict of arrays.
        alignments: See `export_litert`.
        sentences: See `export_litert`.
        sample_inputs: See `export_litert`.
        precision: See `export_litert`.
        batch_size: See `export_litert`.
        target_prefix: See `export_litert`.
        allow_nonfinite: See `export_litert`.
        tolerance: See `export_litert`.
        card: See `export_litert`.
        image_format: See `export_litert`.

    Returns:
        The `ParityReport` of the comparison with Keras.

    Raises:
        ExportError: See `export_litert`.
        ImportError: See `export_litert`.
        ValueError: See `export_litert`.
    """
    if precision not in PRECISIONS:
        raise ValueError(
            f"Expected precision to be one of {list(PRECISIONS)}. Received: {precision=}."
        )
    check_batch_size(batch_size)
    require("tensorflow", "ai_edge_litert")
    require_utf8(path)
    refuse_other_file(Path(path))
    report_phase("Copying the layers")
    function = SearchFunction(model, source_tokenizer, target_tokenizer, alignments, target_prefix)
    require_small(function.weights)
    check_tolerance(tolerance)
    check_finite(function.weights, allow_nonfinite)
    comparison = SearchComparison(function, source_tokenizer, sentences, sample_inputs, batch_size)
    metadata = describe(function, source_tokenizer, target_tokenizer, card, image_format)
    signature = [with_batch_size(spec, batch_size) for spec in function.signature]
    signatures, open_model = split(function, signature)

    def runner(content: bytes) -> Run:
        run = open_model(content)
        pad_token_id = function.search.pad_token_id
        return lambda **inputs: run_in_batches(run, batch_size, inputs, pad_token_id)

    with atomic_replace(path, is_file=True) as partial, pause_garbage_collection():
        report_phase("Converting to LiteRT")
        content = convert_to_litert(signatures, function.weights)
        report = comparison.compare(runner(content), tolerance=tolerance)
        if precision != "float32":
            report_phase(f"Converting to LiteRT with the precision {precision}")
            content = convert_to_litert(signatures, function.weights, precision)
            report.precision = comparison.compare_precision(
                precision, comparison.keras, [runner(content)]
            )
        report_phase("Writing the file")
        write_litert_file(partial, content, metadata | describe_card(card, report))
    return report
