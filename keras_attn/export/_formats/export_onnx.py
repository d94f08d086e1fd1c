from os import PathLike
from typing import Unpack

from keras_attn._models.generation_model import GenerationModel
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.cuda_report import CudaReport
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._formats.file_metadata import describe, describe_card
from keras_attn.export._formats.onnx_file import new_onnx_file
from keras_attn.export._options import OnnxArguments
from keras_attn.export._passes.clean import clean
from keras_attn.export._passes.precisions import lower_precisions
from keras_attn.export._require import require
from keras_attn.export._run_in_background import run_in_background
from keras_attn.export._trace.conversion import convert
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export._trace.trace_function import trace
from keras_attn.export._types import ExportTokenizer
from keras_attn_checks.export_options import OnnxOptions
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase


@list_options(OnnxOptions)
def export_onnx(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[OnnxArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to one ONNX file with its search loop and its vocabularies.

    The file uses only operators of the standard domain, in opset 18, or opset 21 for 4-bit weights.

    - Input `source_ids`: int32 `(batch, source)`.
    - Input `max_length`: int32 `()`.
    - Input `length_penalty`: float32 `()`.
    - An input for each name in `runtime_settings`, such as `temperature`: int32 or float32 `()`.
    - Input `prefix_ids`: int32 `(batch, prefix)`. Only with `accept_target_prefix=True`.
    - Input `seeds`: int32 `(batch,)`. Only for a search with random sampling.
    - Input `constraint_ids`: int32 `(batch, phrases, alternatives, tokens)`, padded with -1. An
      array of shape `(batch, 1, 1, 1)` filled with -1 stands for no phrases. Input
      `constraints_in_order`: bool `()`. Only with `accept_constraints=True`.
    - Inputs `token_bias_ids`: int32, padded with -1, and `token_bias_values`: float32, both
      `(batch, biases)`. Only with `accept_token_bias=True`.
    - Outputs: `token_ids`, `lengths`, `scores` and `log_probs`. If requested, also `alignments`,
      `token_log_probs`, `top_token_ids` and `top_token_log_probs`. See `Search`.

    A model can also have other inputs than ids, such as an image. In the file, these inputs replace
    `source_ids`. They keep their names, shapes and dtypes.

    LSTM and GRU layers are exported as the ONNX operators `LSTM` and `GRU`. A model with mixed
    precision is exported in float32, the precision of its weights.

    The export writes the file only if all checks pass: the file contains only allowed operators,
    `onnx.checker` accepts it, ONNX Runtime can load it, and it returns the same results as Keras.
    The comparison with Keras uses at least 200 sentences in batches of three sizes (80 for a model
    of more than 37 million weights). In some batches, `max_length` cuts hypotheses. A budget of
    tokens, which is smaller for larger models, limits the length of the hypotheses, so that a
    comparison takes at most some minutes; one sentence is decoded furthest. The report says how
    many tokens were compared.

    Args:
        model: `GenerationModel`.
        path: Path of the file; an existing file is replaced.
        source_tokenizer: `SentencePieceTokenizer`, stored in the file. Defaults to `None`.
        target_tokenizer: `SentencePieceTokenizer`, stored in the file. If `None`, the source
            tokenizer is used for source and target. A model whose inputs are not ids has only a
            `target_tokenizer`. Defaults to `None`.
        {{options}}

    Returns:
        The `ParityReport` of the comparison with Keras. If `precision` is not `"float32"`, the
        attribute `precision` of the report compares the file with the float32 model. The attribute
        `cuda` is a `CudaReport` of the nodes that ONNX Runtime cannot run on a GPU.

    Raises:
        ExportError: If a check fails. No file is written, and an existing file is unchanged.
        ImportError: If tf2onnx, onnx or onnxruntime is not installed.
        ValueError: If `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    report = export_onnx(translator, "en-de.onnx", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    chosen = OnnxOptions.of(options)
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
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
    check_finite(function.weights, chosen.allow_nonfinite)
    comparison = SearchComparison(
        function, source_tokenizer, chosen.parity_sentences, chosen.parity_inputs
    )
    metadata = describe(
        function, source_tokenizer, target_tokenizer, chosen.model_card, chosen.image_format
    )
    traceable = function.traceable()
    with (
        without_tensor_float_32(),
        new_onnx_file(path, function.weights, chosen.external_data) as file,
        # Keras runs in parallel with the conversion, which uses only one core.
        run_in_background(comparison.expected()) as expected,
    ):
        report_phase("Tracing")
        traced = trace(traceable, function.signature, function.weights)
        report_phase("Converting to ONNX")
        converted = convert(traced)
        del traced
        report_phase("Cleaning the graph")
        clean(converted, function.dimensions, metadata)
        if chosen.precision != "float32":
            report_phase(f"Lowering the precision to {chosen.precision}")
        lower = lower_precisions(converted, chosen.precision)
        report_phase("Writing the file")
        cuda = CudaReport.of(lower[0] if lower else converted)
        float32 = file.write_other(converted) if lower else file.write(converted)
        del converted  # otherwise its weights would be in memory during the comparison
        report = comparison.compare(float32, expected(), chosen.tolerance)
        if lower:
            runs = [file.write(lower[0]), *map(file.write_other, lower[1:])]
            del lower
            report.precision = comparison.compare_precision(chosen.precision, float32, runs)
        report.cuda = cuda
        file.add_metadata(describe_card(chosen.model_card, report))
    return report
