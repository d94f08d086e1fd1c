from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.cuda_report import CudaReport
from keras_attn.export.checks.parity_sentences import parity_prefixes, parity_sentences
from keras_attn.export.checks.precision_report import PrecisionReport
from keras_attn.export.checks.verify import compare_translations, translated_batches, whole_batches
from keras_attn.export.formats.file_format import describe
from keras_attn.export.formats.onnx_file import PRECISIONS, write_onnx
from keras_attn.export.require import require
from keras_attn.export.run_in_background import run_in_background
from keras_attn.export.trace.folded_time import folded_time
from keras_attn.export.trace.fused_recurrence import fused_recurrence
from keras_attn.export.trace.in_float32 import in_float32
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.export.trace.without_cudnn import without_cudnn
from keras_attn.export.trace.without_dropout import without_dropout


def export_onnx(
    model,
    path,
    source_tokenizer=None,
    target_tokenizer=None,
    *,
    alignments=None,
    sentences=None,
    precision="float32",
    external_data=False,
    target_prefix=False,
    allow_nonfinite=False,
    card=None,
):
    """Writes a search model as one ONNX file, with its search loop and its vocabularies inside.

    Opset 18, or 21 with weights of 4 bits; operators of the standard domain only. Inputs:
    `source_ids` int32 `(batch, source_length)`, `max_length` int32 `()`, `length_penalty` float32
    `()`, on request `prefix_ids` int32 `(batch, prefix_length)`, and of a search that draws at
    random `seeds` int32 `(batch,)`. Outputs: `token_ids`, `lengths`, `scores`, `log_probs`,
    `alignments` on request, and `token_log_probs` of a search that returns them. LSTM and GRU
    layers become the operators of these names, see `fused_recurrence`.
    A model of mixed precision is exported in float32, the precision of its weights.

    The file appears under its name only after it passed: allowed operators, `onnx.checker`, a
    session of ONNX Runtime, and a comparison with Keras on at least 200 sentences in batches of
    three sizes, some of them cut by `max_length`.

    Args:
        model: functional Keras model: `source_ids` -> encoder -> `Search` layer.
        path: name of the file; an existing one is replaced.
        source_tokenizer, target_tokenizer: optional `SentencePieceTokenizer`s, stored in the file.
            Leave `target_tokenizer` out if both languages share one.
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

    Returns:
        The `ParityReport` of the comparison with Keras; its `precision` compares the file with the
        float32 model, its `cuda` tells which nodes a GPU would not run.

    Raises:
        ExportError: a check failed. No file is written; an existing one stays as it was.
        ImportError: tf2onnx, onnx or onnxruntime is missing.
        ValueError: `model` is not a search model, or an argument does not fit it.

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
    sentences = parity_sentences(function, source_tokenizer, sentences)
    prefixes = parity_prefixes(function, len(sentences))

    def verify(run):
        report = compare_translations(expected(), run, function.search)
        report.check()
        return report

    def verify_precision(report, float32, run):
        batches = whole_batches(sentences, function.search, prefixes, function.source.pad_token_id)
        found = PrecisionReport.compare(precision, float32, run, batches, function.draws)
        found.check()
        if report.precision is None or found.mean_difference > report.precision.mean_difference:
            report.precision = found

    with (
        without_cudnn(model),
        without_dropout(model),
        folded_time(model),
        in_float32(model),
    ):
        # Keras translates while the model is converted, which keeps one core busy.
        batches = translated_batches(
            function.runner(), sentences, function.search, prefixes, function.source.pad_token_id
        )
        with run_in_background(batches) as expected:
            report, written = write_onnx(
                path,
                fused_recurrence(model)(function),
                function.signature,
                function.weights,
                function.dimensions,
                describe(function, source_tokenizer, target_tokenizer, card),
                verify,
                precision,
                verify_precision,
                external_data,
            )
    report.cuda = CudaReport.of(written)
    return report
