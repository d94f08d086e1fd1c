from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import keras

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.functional_comparison import compare_functional, expected_batches
from keras_attn.export._checks.litert_runner import litert_runner, run_in_batches
from keras_attn.export._checks.parity_inputs import arrays_in_order
from keras_attn.export._formats.functional_metadata import FunctionalMetadata
from keras_attn.export._formats.litert_file import refuse_other_file, write_litert_file
from keras_attn.export._preconditions import check_dense_numbers, functional_model
from keras_attn.export._report import ExportReport
from keras_attn.export._require import require, require_utf8
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._trace.litert_conversion import (
    SIGNATURE,
    convert_to_litert,
    require_small,
    with_batch_size,
)
from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export._types import Dimensions, ExportTokenizer, Metadata, ParityInputs
from keras_attn_checks.export_options import DynamicSizes, FunctionalLiteRTOptions
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase


@list_options(FunctionalLiteRTOptions)
def export_functional_litert(
    model: keras.Model,
    path: str | PathLike[str],
    parity_inputs: ParityInputs,
    tolerance: float = 1e-5,
    *,
    batch_size: int = 1,
    dynamic_sizes: DynamicSizes | None = None,
    tokenizer: ExportTokenizer | None = None,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    allow_nonfinite: bool = False,
) -> ExportReport:
    """Exports any functional model to a LiteRT file, for instance a classifier with attention.

    The file has the signature `serving_default` and uses only the built-in operators of LiteRT. Its
    inputs and outputs have the same names as in the file that `export_functional_onnx` writes. All
    axes except the batch axis can be dynamic.

    A model with mixed precision is exported in float32, the precision of its weights.

    Args:
        model: Functional `keras.Model`, or a built `keras.Sequential`.
        path: Path of the file; an existing file is replaced.
        {{options}}

    Returns:
        An `ExportReport`, with the largest difference.

    Raises:
        ExportError: If LiteRT lacks an operator of the model, the weights have more than 2 GB, or
            the file disagrees with Keras. No file is written, and an existing file is unchanged.
        ImportError: If ai-edge-litert is not installed.
        ValueError: If `model` does not fit `tokenizer` or `labels`, is not functional, a layer is
            stateful, an input or output has no batch axis, or the sample or `dynamic_sizes` does
            not fit the inputs.

    Example:

    ```python
    model = sequence_classifier(encoder, num_classes=2)
    ids = keras.utils.pad_sequences(tokenizer.encode(texts), padding="post")
    export_functional_litert(
        model, "classifier.tflite", ids, tokenizer=tokenizer, labels=["negative", "positive"]
    )
    keras_attn_runtime.Classifier("classifier.tflite")(["what a film"])  # ["positive"]
    ```
    """
    options = FunctionalLiteRTOptions(
        parity_inputs=parity_inputs,
        tolerance=tolerance,
        batch_size=batch_size,
        dynamic_sizes=dynamic_sizes,
        tokenizer=tokenizer,
        labels=labels,
        max_length=max_length,
        allow_nonfinite=allow_nonfinite,
    )
    return write_functional_litert(model, path, options)


def write_functional_litert(
    model: keras.Model,
    path: str | PathLike[str],
    options: FunctionalLiteRTOptions,
    describe: Callable[[Dimensions], Metadata] | None = None,
) -> ExportReport:
    """Exports a functional model like `export_functional_litert`, with metadata.

    Args:
        model: See `export_functional_litert`.
        path: See `export_functional_litert`.
        options: `FunctionalLiteRTOptions`.
        describe: Function that returns the metadata of the file, a dict of strings. Its argument is
            a dict from the name of each input and output to its axes. Defaults to `None`: the
            metadata of a functional model.

    Returns:
        An `ExportReport`, with the largest difference.
    """
    require("tensorflow", "ai_edge_litert")
    require_utf8(path)
    refuse_other_file(Path(path))
    model, batch_size = functional_model(model), options.batch_size
    require_small(model.variables)
    check_finite(model.variables, options.allow_nonfinite)
    function = FunctionalFunction(model)
    check_dense_numbers(function.inputs)
    _check_batch_axes(function, batch_size)
    arrays = arrays_in_order(options.parity_inputs, function.inputs)
    report_phase("Running Keras on the sample and on other sizes")
    batches, fixed = expected_batches(function, arrays, options.dynamic_sizes)
    dimensions = function.dimensions(arrays, batches, fixed)
    if describe is None:
        metadata = FunctionalMetadata(function, dimensions, batches, options).describe()
    else:
        metadata = describe(dimensions)
    signature = [with_batch_size(spec, batch_size) for spec in function.signature]
    with atomic_replace(path, is_file=True) as partial, pause_garbage_collection():
        report_phase("Converting to LiteRT")
        content = convert_to_litert({SIGNATURE: (function.folded(), signature)}, function.weights)
        run = litert_runner(content)
        report_phase("Comparing the file with Keras")
        largest = max(
            compare_functional(
                function,
                feed,
                expected,
                lambda **rows: run_in_batches(run, batch_size, rows),
                options.tolerance,
            )
            for feed, expected in batches
        )
        write_litert_file(partial, content, metadata)
    return ExportReport(largest_difference=largest)


def _check_batch_axes(function: FunctionalFunction, batch_size: int) -> None:
    tensors = {**function.inputs, **function.outputs}
    wrong = {
        name: each.shape
        for name, each in tensors.items()
        if not each.shape or each.shape[0] not in (None, batch_size)
    }
    if wrong:
        raise ValueError(
            f"Expected inputs and outputs with a batch axis of any size or of {batch_size}. "
            f"Received: {wrong}. Set batch_size, or export with `export_functional_onnx`."
        )
