from collections.abc import Sequence
from os import PathLike
from typing import Any

from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.cuda_report import CudaReport
from keras_attn.export.checks.search_comparison import SearchComparison
from keras_attn.export.formats.file_format import describe, describe_card
from keras_attn.export.formats.onnx_file import new_onnx_file
from keras_attn.export.passes.clean import clean
from keras_attn.export.passes.precisions import PRECISIONS, lower_precisions
from keras_attn.export.require import require
from keras_attn.export.run_in_background import run_in_background
from keras_attn.export.trace.conversion import convert
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.export.trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export.trace.trace_function import trace


def export_onnx(
    model: Any,
    path: str | PathLike[str],
    source_tokenizer: Any = None,
    target_tokenizer: Any = None,
    *,
    alignments: Any = None,
    sentences: Sequence[Any] | None = None,
    sample_inputs: Any = None,
    precision: str = "float32",
    external_data: bool | str = False,
    target_prefix: bool = False,
    allow_nonfinite: bool = False,
    card: Any = None,
) -> Any:
    """Exports a `GenerationModel` to one ONNX file with its search loop and its vocabularies.

    The file uses operators of the standard domain only, in opset 18, or 21 with 4-bit weights.

    - Inputs: `source_ids` int32 `(batch, source)`, `max_length` int32 `()`, `length_penalty`
      float32 `()`, with `target_prefix=True` `prefix_ids` int32 `(batch, prefix)`, and for a search
      with random sampling `seeds` int32 `(batch,)`.
    - Outputs: `token_ids`, `lengths`, `scores` and `log_probs`, and if requested `alignments` and
      `token_log_probs`, see `Search`.

    A model with other inputs than ids, such as an image, has these inputs instead of `source_ids`,
    with their names, shapes and dtypes.

    LSTM and GRU layers become the ONNX operators of these names. A model with mixed precision is
    exported in float32, the precision of its weights.

    The file is written only after it passed all checks: allowed operators, `onnx.checker`, a
    session of ONNX Runtime, and a comparison with Keras on at least 200 sentences in batches of
    three sizes, some of them limited by `max_length`.

    Args:
        model: `GenerationModel`.
        path: Path of the file; an existing file is replaced.
        source_tokenizer: `SentencePieceTokenizer`, stored in the file. Defaults to `None`.
        target_tokenizer: `SentencePieceTokenizer`, stored in the file. Defaults to `None`: the
            source tokenizer is used for both sides. A model whose inputs are not ids has only a
            `target_tokenizer`.
        alignments: Bool, whether the attention weights are outputs. Defaults to `None`: if the
            search has `return_alignments`.
        sentences: List of texts (with `source_tokenizer`) or of lists of ids for the comparison. If
            there are fewer than 200, random sentences are added. Defaults to `None`.
        sample_inputs: For a model whose inputs are not ids, the inputs of the comparison, as for
            `model.predict`: an array, or a dict of arrays by the names of the inputs. Dynamic axes
            are also compared with other sizes. Defaults to `None`, random numbers in [0, 1), which
            requires float inputs.
        precision: String. All but `"float32"` are smaller, and faster if matrix products take most
            of the time; such a file is also compared with the float32 model, see `PrecisionReport`.
            `"float16"`, for GPUs: 16-bit matrix products and everything between them, see
            `keras_attn.export.passes.half_precision`. `"int8"`, for CPUs: 8-bit weights of the
            matrix products, see `keras_attn.export.passes.int8_weights`. `"int8-rows"`: the same
            with one scale for each row of activations, about 5 % slower; unlike with `"int8"`, the
            scores of a sentence do not depend on the rest of the batch. `"int4"`, for one text at a
            time on a CPU: 4-bit weights, see `keras_attn.export.passes.int4_weights`. Defaults to
            `"float32"`.
        external_data: Bool, whether `path` becomes a directory with the files `model.onnx` and
            `model.weights`, which belong together. This is always the case for more than 2 GB of
            weights, which do not fit in one file. Defaults to `False`.
        target_prefix: Bool, whether `prefix_ids` is an input: tokens with which each hypothesis
            begins, padded on the right. Defaults to `False`.
        allow_nonfinite: Bool, whether weights may be NaN or infinite. The results must still equal
            those of Keras, which is never true of NaN. Defaults to `False`.
        card: `ModelCard` to store in the file. Defaults to `None`.

    Returns:
        The `ParityReport` of the comparison with Keras. Its `precision` compares the file with the
        float32 model; its `cuda` lists the nodes that would not run on a GPU.

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
    if precision not in PRECISIONS:
        raise ValueError(
            f"Expected precision to be one of {list(PRECISIONS)}. Received: {precision=}."
        )
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    function = SearchFunction(model, source_tokenizer, target_tokenizer, alignments, target_prefix)
    check_finite(function.weights, allow_nonfinite)
    comparison = SearchComparison(function, source_tokenizer, sentences, sample_inputs)
    metadata = describe(function, source_tokenizer, target_tokenizer, card)
    traceable = function.traceable()
    with (
        without_tensor_float_32(),
        new_onnx_file(path, function.weights, external_data) as file,
        # Keras translates while the model is converted, which keeps one core busy.
        run_in_background(comparison.expected()) as expected,
    ):
        converted = convert(trace(traceable, function.signature, function.weights))
        clean(converted, function.dimensions, metadata)
        lower = lower_precisions(converted, precision)
        if not lower:
            report = comparison.compare(file.write(converted), expected())
        else:
            float32 = file.write_other(converted)
            report = comparison.compare(float32, expected())
            converted, *emulation = lower
            runs = [file.write(converted), *map(file.write_other, emulation)]
            found = [comparison.compare_precision(precision, float32, run) for run in runs]
            report.precision = max(found, key=lambda each: each.mean_difference)
        file.add_metadata(describe_card(card, report))
    report.cuda = CudaReport.of(converted)
    return report
