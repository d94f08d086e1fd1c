from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._models.generation_model import GenerationModel
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._checks.stepped_runner import stepped_runner
from keras_attn.export._formats.external_data import require_one_file
from keras_attn.export._formats.file_metadata import describe, describe_card
from keras_attn.export._formats.onnx_file import write_model
from keras_attn.export._options import OnnxStepsArguments
from keras_attn.export._passes.clean import clean
from keras_attn.export._require import require, require_utf8
from keras_attn.export._trace.conversion import convert
from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._trace.stepped_search import SteppedSearch
from keras_attn.export._trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export._trace.trace_function import trace
from keras_attn.export._types import ExportTokenizer, Metadata, Run
from keras_attn_checks.export_options import OnnxStepsOptions
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase

if TYPE_CHECKING:
    import tensorflow as tf


@list_options(OnnxStepsOptions)
def export_onnx_steps(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[OnnxStepsArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to three ONNX files, for programs that run the search loop.

    Such a program (the host) gets each token as soon as it is generated. Between two steps, it can
    read or change every tensor. The three files contain the parts of the search that `export_onnx`
    combines with a loop. In the table, `STATE` stands for all tensors that the search keeps between
    two steps:

        start.onnx    source_ids, max_length, optionally prefix_ids and seeds -> STATE
        step.onnx     STATE, length_penalty, optionally the runtime_settings -> new values of STATE,
                      partial
        finish.onnx   STATE -> token_ids, lengths, scores, log_probs, optionally alignments,
                      token_log_probs, top_token_ids and top_token_log_probs

    All other inputs and outputs are described in `export_onnx`. The host runs `start.onnx`. While
    not all elements of the state tensor `done` are true, it runs `step.onnx`. If a step changes the
    state tensor `name`, it returns the new value as `next/name`, and the host passes this value as
    `name` to the next step. The output `partial`, int32 of shape `(batch, steps)`, is the best
    hypothesis so far. At the end, the host runs `finish.onnx`, whose outputs are those of
    `export_onnx`. Each file declares as inputs only the state tensors that it reads. Sentences that
    have ended remain in the batch. A model with mixed precision is exported in float32, the
    precision of its weights.

    Args:
        model: `GenerationModel`.
        path: Path of the directory. A directory from an earlier export is replaced.
        source_tokenizer: `SentencePieceTokenizer`, stored in `start.onnx`. Defaults to `None`.
        target_tokenizer: `SentencePieceTokenizer`, stored in `start.onnx`. If `None`, the source
            tokenizer is used for source and target. A model whose inputs are not ids has only a
            `target_tokenizer`. Defaults to `None`.
        {{options}}

    Returns:
        The `ParityReport` of the comparison with Keras.

    Raises:
        ExportError: If a check fails. No directory is written, and an existing one is unchanged.
        ImportError: If tf2onnx, onnx or onnxruntime is not installed.
        ValueError: If `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    report = export_onnx_steps(translator, "en-de-steps", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    chosen = OnnxStepsOptions.of(options)
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    import onnx

    require_utf8(path)
    report_phase("Copying the layers")
    function = SearchFunction(
        model,
        source_tokenizer,
        target_tokenizer,
        chosen.alignments,
        chosen.accept_target_prefix,
        chosen.runtime_settings,
        chosen.accept_constraints,
        chosen.accept_token_bias,
    )
    require_one_file(function.weights)
    check_finite(function.weights, chosen.allow_nonfinite)
    comparison = SearchComparison(
        function, source_tokenizer, chosen.parity_sentences, chosen.parity_inputs
    )
    metadata = describe(
        function, source_tokenizer, target_tokenizer, chosen.model_card, chosen.image_format
    )
    metadata |= describe_card(chosen.model_card)
    with (
        without_tensor_float_32(),
        atomic_replace(path, is_file=False) as partial,
        pause_garbage_collection(),
    ):
        partial.mkdir()
        steps = SteppedSearch(function.traceable())

        def write(
            name: str,
            part: "Callable[..., Mapping[str, tf.Tensor]]",
            signature: "Sequence[tf.TensorSpec]",
            metadata: Metadata,
        ) -> Run:
            report_phase(f"Converting {name}.onnx")
            converted = convert(trace(part, signature, function.weights))
            clean(converted, steps.dimensions, metadata)
            return write_model(converted, partial / f"{name}.onnx")

        start = write("start", steps.start, steps.start_signature, metadata)
        # step.onnx and finish.onnx store the checksum of start.onnx, so that the runtime can refuse
        # files from different exports.
        written = onnx.load(partial / "start.onnx").metadata_props
        metadata = {"keras_attn.start": written[-1].value}
        step = write("step", steps.step, steps.step_signature, metadata)
        finish = write("finish", steps.finish, steps.finish_signature, metadata)
        report = comparison.compare(
            stepped_runner(steps, start, step, finish), tolerance=chosen.tolerance
        )
    return report
