from collections.abc import Sequence
from os import PathLike
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.search_comparison import SearchComparison
from keras_attn.export.formats.external_data import require_one_file
from keras_attn.export.formats.file_format import describe, describe_card
from keras_attn.export.formats.onnx_file import write_model
from keras_attn.export.passes.clean import clean
from keras_attn.export.require import require, require_utf8
from keras_attn.export.trace.conversion import convert
from keras_attn.export.trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.export.trace.stepped_search import NEXT, SteppedSearch
from keras_attn.export.trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export.trace.trace_function import trace


def export_onnx_steps(
    model: Any,
    directory: str | PathLike[str],
    source_tokenizer: Any = None,
    target_tokenizer: Any = None,
    *,
    alignments: Any = None,
    sentences: Sequence[Any] | None = None,
    sample_inputs: Any = None,
    target_prefix: bool = False,
    allow_nonfinite: bool = False,
    card: Any = None,
) -> Any:
    """Writes a `GenerationModel` as three ONNX files, for a host that runs the loop of the search.

    So the host sees each token when it is there, and every tensor between two steps. The files are
    the parts of the search that `export_onnx` puts around a loop, see `SteppedSearch`:

        start.onnx    source_ids, max_length, prefix_ids on request, and seeds of a search that
                      draws at random -> values
        step.onnx     values, length_penalty -> next/values, partial
        finish.onnx   values -> token_ids, lengths, scores, log_probs, alignments on request, and
                      token_log_probs of a search that returns them

    The host feeds each `next/name` back as `name` until all of `done` is true; `partial`, int32
    `(batch, steps)`, is the best hypothesis so far. The results are those of the one file.
    A model of mixed precision is exported in float32, the precision of its weights.
    Sentences that have ended stay in the batch.

    Args:
        model: a `GenerationModel`.
        directory: name of the directory; that of an earlier export is replaced.
        source_tokenizer, target_tokenizer, alignments, sentences, sample_inputs, target_prefix,
            allow_nonfinite, card: as for `export_onnx`.

    Returns:
        The `ParityReport` of the comparison with Keras.

    Raises:
        ExportError: a check failed. No directory is written; an existing one stays as it was.
        ImportError: tf2onnx, onnx or onnxruntime is missing.
        ValueError: `model` is not a `GenerationModel`, or an argument does not fit it.
    """
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    import onnx

    require_utf8(directory)
    function = SearchFunction(model, source_tokenizer, target_tokenizer, alignments, target_prefix)
    require_one_file(function.weights)
    check_finite(function.weights, allow_nonfinite)
    comparison = SearchComparison(function, source_tokenizer, sentences, sample_inputs)
    metadata = describe(function, source_tokenizer, target_tokenizer, card) | describe_card(card)
    with (
        without_tensor_float_32(),
        atomic_replace(directory, is_file=False) as partial,
        pause_garbage_collection(),
    ):
        partial.mkdir()
        steps = SteppedSearch(function.traceable())

        def write(name, part, signature, metadata):
            converted = convert(trace(part, signature, function.weights))
            clean(converted, steps.dimensions, metadata)
            return write_model(converted, partial / f"{name}.onnx")

        start = write("start", steps.start, steps.start_signature, metadata)
        # The other files say which start they belong to, so that exports are not mixed.
        written = onnx.load(partial / "start.onnx").metadata_props
        metadata = {"keras_attn.start": written[-1].value}
        step = write("step", steps.step, steps.step_signature, metadata)
        finish = write("finish", steps.finish, steps.finish_signature, metadata)
        report = comparison.compare(_runner(steps, start, step, finish))
    return report


def _runner(steps, start, step, finish):
    """The search, run by the three files."""

    def run(length_penalty, **inputs):
        values = start(**inputs)
        values["length_penalty"] = length_penalty
        while not values["done"].all():
            following = step(**{spec.name: values[spec.name] for spec in steps.step_signature})
            values |= {name.removeprefix(NEXT): value for name, value in following.items()}
        return finish(**{spec.name: values[spec.name] for spec in steps.finish_signature})

    return run
