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
    """Writes a `GenerationModel` as one ONNX file, with its search loop and its vocabularies.

    Opset 18, or 21 with weights of 4 bits; operators of the standard domain only. Inputs:
    `source_ids` int32 `(batch, source_length)`, `max_length` int32 `()`, `length_penalty` float32
    `()`, on request `prefix_ids` int32 `(batch, prefix_length)`, and of a search that draws at
    random `seeds` int32 `(batch,)`. Outputs: `token_ids`, `lengths`, `scores`, `log_probs`,
    `alignments` on request, and `token_log_probs` of a search that returns them. LSTM and GRU
    layers become the operators of these names, see `fuse_recurrence`.
    A model of other inputs than ids, such as an image, has these in the place of `source_ids`, with
    their names, shapes and dtypes.
    A model of mixed precision is exported in float32, the precision of its weights.

    The file appears under its name only after it passed: allowed operators, `onnx.checker`, a
    session of ONNX Runtime, and a comparison with Keras on at least 200 sentences in batches of
    three sizes, some of them cut by `max_length`.

    Args:
        model: a `GenerationModel`.
        path: name of the file; an existing one is replaced.
        source_tokenizer, target_tokenizer: optional `SentencePieceTokenizer`s, stored in the file.
            Leave `target_tokenizer` out if both languages share one. A model of other inputs than
            ids has a `target_tokenizer` alone.
        alignments: bool, whether the attention weights are among the outputs. Default `None`: as
            the search was made.
        precision: `"float32"`; `"float16"`, for a GPU: matrix products and what lies between them
            in 16 bits, see `keras_attn.export.passes.half_precision`; `"int8"`, for a CPU: the
            weights of matrix products in 8 bits, see `keras_attn.export.passes.int8_weights`;
            `"int8-rows"`, the same with a scale for each row of activations: slower by about 5 %,
            and scores do not depend on the other sentences of a batch, as they do with `"int8"`;
            `"int4"`, for one text at a time on a CPU: in 4 bits, see
            `keras_attn.export.passes.int4_weights`. All are smaller, and faster where these
            products take the time. Such a file is also compared with the float32 model, see
            `PrecisionReport`.
        external_data: bool, whether `path` becomes a directory with the files `model.onnx` and
            `model.weights`, which belong together. More than 2 GB of weights are always written so,
            because one file could not hold them. Default False.
        target_prefix: bool, whether `prefix_ids`, what each hypothesis begins with, padded on the
            right, is an input too. Default False.
        allow_nonfinite: bool, whether weights may be NaN or infinite. The results must still equal
            those of Keras, which NaN never does. Defaults to `False`.
        card: `ModelCard` that is stored in the file. Defaults to `None`.
        sentences: optional list of texts (needs `source_tokenizer`) or of lists of ids for the
            comparison; if there are fewer than 200, random ones are added.
        sample_inputs: for a model of other inputs than ids, the inputs of the comparison: what
            `model.predict` takes, an array or a dict of arrays by the names of the inputs. Dynamic
            axes also get other sizes. Defaults to random numbers in [0, 1), which needs inputs of
            floats.

    Returns:
        The `ParityReport` of the comparison with Keras; its `precision` compares the file with the
        float32 model, its `cuda` tells which nodes a GPU would not run.

    Raises:
        ExportError: a check failed. No file is written; an existing one stays as it was.
        ImportError: tf2onnx, onnx or onnxruntime is missing.
        ValueError: `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    report = export_onnx(translator, "en-de.onnx", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {tuple(PRECISIONS)}. Received: {precision=}.")
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
