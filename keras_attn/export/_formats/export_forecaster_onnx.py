from collections.abc import Sequence
from os import PathLike

import keras

from keras_attn.export._formats.export_functional_onnx import write_functional_onnx
from keras_attn.export._formats.forecaster_metadata import ForecasterMetadata
from keras_attn.export._report import ExportReport
from keras_attn.export._types import ParityInputs
from keras_attn_checks.export_options import ForecasterOnnxOptions, FunctionalOnnxOptions
from keras_attn_checks.options import list_options


@list_options(ForecasterOnnxOptions)
def export_forecaster_onnx(
    model: keras.Model,
    path: str | PathLike[str],
    target_names: Sequence[str] | None = None,
    past_covariate_names: Sequence[str] | None = None,
    future_covariate_names: Sequence[str] | None = None,
    time_column: str | None = None,
    parity_inputs: ParityInputs | None = None,
    tolerance: float = 1e-4,
    *,
    calendar_columns: Sequence[str] | None = None,
    series_column: str | None = None,
) -> ExportReport:
    """Exports a model that forecasts to one ONNX file, for `keras_attn_runtime.Forecaster`.

    The file contains the scaling of the series, the loop over the time steps and the sampling. The
    export converts and checks the file like `export_functional_onnx`. With equal `seeds`, the file
    and Keras sample equal paths, up to rounding errors. The metadata contain the names of the
    columns, so that the command `keras-attn-runtime forecast` can read CSV files.

    Args:
        model: Functional model with a `PathSampler`, see
            `keras_attn.forecasting.forecast_model`.
        path: Path of the file; an existing file is replaced.
        {{options}}

    Returns:
        An `ExportReport`, with the largest difference.

    Raises:
        ExportError: If a check fails. No file is written, and an existing file is unchanged.
        ImportError: If tf2onnx, onnx or onnxruntime is not installed.
        ValueError: If `model` has no `PathSampler`, or the number of names is wrong.

    Example:

    ```python
    model = forecast_model(PathSampler(forecaster))
    export_forecaster_onnx(model, "forecaster.onnx", target_names=["temperature"])
    ```
    """
    options = ForecasterOnnxOptions(
        target_names=target_names,
        past_covariate_names=past_covariate_names,
        future_covariate_names=future_covariate_names,
        time_column=time_column,
        calendar_columns=calendar_columns,
        series_column=series_column,
        parity_inputs=parity_inputs,
        tolerance=tolerance,
    )
    metadata = ForecasterMetadata(model, options)
    functional = FunctionalOnnxOptions(
        parity_inputs=metadata.parity_inputs, tolerance=options.tolerance
    )
    return write_functional_onnx(model, path, functional, metadata.describe)
