from collections.abc import Callable, Sequence
from os import PathLike

import keras

from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.functional_comparison import compare_functional, expected_batches
from keras_attn.export._checks.parity_inputs import arrays_in_order
from keras_attn.export._formats.functional_metadata import FunctionalMetadata
from keras_attn.export._formats.onnx_file import new_onnx_file
from keras_attn.export._passes import PASSES, top_k_of_no_rows
from keras_attn.export._passes.clean import clean
from keras_attn.export._preconditions import check_dense_numbers, functional_model
from keras_attn.export._report import ExportReport
from keras_attn.export._require import require
from keras_attn.export._trace.conversion import convert
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._trace.tensor_float_32 import without_tensor_float_32
from keras_attn.export._trace.trace_function import trace
from keras_attn.export._types import Dimensions, ExportTokenizer, Metadata, ParityInputs
from keras_attn_checks.export_options import DynamicSizes, FunctionalOnnxOptions
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase


@list_options(FunctionalOnnxOptions)
def export_functional_onnx(
    model: keras.Model,
    path: str | PathLike[str],
    parity_inputs: ParityInputs,
    tolerance: float = 1e-5,
    *,
    dynamic_sizes: DynamicSizes | None = None,
    tokenizer: ExportTokenizer | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    allow_nonfinite: bool = False,
) -> ExportReport:
    """Exports any functional model to an ONNX file, for instance a classifier with attention.

    The export converts and checks the file like `export_onnx`. Names in the file:

    - Inputs have the names of the model's inputs, or the keys of its dict of inputs.
    - Outputs have the keys of the model's dict of outputs (`outer/inner` if it is nested). Without
      a dict, they have the names of the layers that return them. If such a name is already in use,
      because a layer returns several outputs or an input is also an output, a number is appended,
      such as `_1`.
    - The first axis is named `batch`. Any other dynamic axis is named after its tensor and its
      index, such as `ids_1`. The first axis of an output is named in this way too (`scores_0`) if
      it is not the batch axis of the inputs.

    A model with mixed precision is exported in float32, the precision of its weights.

    Args:
        model: Functional `keras.Model`, or a built `keras.Sequential`.
        path: Path of the file; an existing file is replaced. If the weights exceed 2 GB, a
            directory is written instead.
        {{options}}

    Returns:
        An `ExportReport`, with the largest difference.

    Raises:
        ExportError: If a check fails. If the results differ, the message names the first layer with
            a different output. No file is written, and an existing file is unchanged.
        ImportError: If tf2onnx, onnx or onnxruntime is not installed.
        ValueError: If `model` does not fit `tokenizer` or `labels`, is not functional, a layer is
            stateful, an input has strings or is sparse or ragged, two tensors get the same name, or
            the sample or `dynamic_sizes` does not fit the inputs.

    Example:

    ```python
    model = sequence_classifier(encoder, num_classes=2)
    ids = keras.utils.pad_sequences(tokenizer.encode(texts), padding="post")
    export_functional_onnx(
        model, "classifier.onnx", ids, tokenizer=tokenizer, labels=["negative", "positive"]
    )
    keras_attn_runtime.Classifier("classifier.onnx")(["what a film"])  # ["positive"]
    ```
    """
    options = FunctionalOnnxOptions(
        parity_inputs=parity_inputs,
        tolerance=tolerance,
        dynamic_sizes=dynamic_sizes,
        tokenizer=tokenizer,
        labels=labels,
        max_length=max_length,
        allow_nonfinite=allow_nonfinite,
    )
    return write_functional_onnx(model, path, options)


def write_functional_onnx(
    model: keras.Model,
    path: str | PathLike[str],
    options: FunctionalOnnxOptions,
    describe: Callable[[Dimensions], Metadata] | None = None,
) -> ExportReport:
    """Exports a functional model like `export_functional_onnx`, with metadata.

    Args:
        model: See `export_functional_onnx`.
        path: See `export_functional_onnx`.
        options: `FunctionalOnnxOptions`.
        describe: Function that returns the metadata of the file, a dict of strings. Its argument is
            a dict from the name of each input and output to its axes. Defaults to `None`: the
            metadata of a functional model.

    Returns:
        An `ExportReport`, with the largest difference.
    """
    require("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    model = functional_model(model)
    check_finite(model.variables, options.allow_nonfinite)
    function = FunctionalFunction(model)
    check_dense_numbers(function.inputs)
    arrays = arrays_in_order(options.parity_inputs, function.inputs)
    with without_tensor_float_32(), new_onnx_file(path, model.variables) as file:
        report_phase("Running Keras on the sample and on other sizes")
        batches, fixed = expected_batches(function, arrays, options.dynamic_sizes)
        dimensions = function.dimensions(arrays, batches, fixed)
        if describe is None:
            metadata = FunctionalMetadata(function, dimensions, batches, options).describe()
        else:
            metadata = describe(dimensions)
        report_phase("Tracing and converting to ONNX")
        converted = convert(trace(function.traceable(), function.signature, function.weights))
        report_phase("Cleaning the graph")
        clean(converted, dimensions, metadata, (*PASSES, top_k_of_no_rows))
        report_phase("Writing the file")
        run = file.write(converted)
        del converted  # otherwise its weights would be in memory during the comparison
        report_phase("Comparing the file with Keras")
        largest = max(
            compare_functional(function, feed, expected, run, options.tolerance)
            for feed, expected in batches
        )
    return ExportReport(largest_difference=largest)
